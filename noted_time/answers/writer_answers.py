"""The answers about writers, and the explanation of a watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from noted_time.answers.overviews import Condition, Silence
from noted_time.json_types import Offsets
from noted_time.open_enum import OpenEnum
from noted_time.reading import ReaderPlace
from noted_time.values import (
    DecisionName,
    Exclusion,
    Forecast,
    HeldName,
    Int64,
    LateRows,
    LogFact,
    MemberState,
    Overtaking,
    Spell,
    VouchedBy,
    Waiting,
    Would,
)

HintKind = OpenEnum["taken_over", "fenced", "seconds", "no_position", "late"]


class Hint(Struct, frozen=True):
    """A writer whose notes look wrong. `detail` continues a sentence that starts with its name.

    - `taken_over`: its name was taken over at least three times in the last minute.
    - `fenced`: two processes noted under its name within the hour.
    - `seconds`: its time is probably in seconds.
    - `no_position`: it noted times but no position, unlike other writers.
    - `late`: it wrote rows below the watermark within the last ten minutes.
    """

    writer: str
    hint: HintKind
    detail: str


class Explanation(Struct, frozen=True):
    """The current decision of a domain and its reasons.

    - `condition`: the condition that the first sentence describes.
    - `waiting_for`: some of the holders, the longest first. `holders` is the number of all.
    - `overtaking`: the later time that another writer has noted, for more than 10 s, or null.
    - `lower_without`: the lower that the stream would have without each writer in `waiting_for`.
    - `by_itself`: when (Unix ms) and how far the watermark advances if no holder notes. Null if it
      does not advance, or if too many writers would be excluded first.
    - `would`: the result of the dry run.
    - `hints`: up to ten writers whose notes look wrong.
    - `silence`: the consequence of the stream's silence, null if the stream is not silent.
    - `vouched`: who vouches for the lower, null if there are too many members to examine.
    - `reader`: the marks and segments that a reader at the requested position waits for.
    - `sentences`: the explanation in words. The decision comes first, the dry run last.
    """

    now: Int64
    decision: DecisionName
    condition: Condition
    lower: Int64 | None
    written_at: Int64 | None
    next_lower: Int64 | None
    waiting_for: Sequence[Waiting]
    holders: int
    overtaking: Overtaking | None
    lower_without: Mapping[str, Int64 | None]
    by_itself: Forecast | None
    would: Would | None
    hints: Sequence[Hint]
    silence: Silence | None
    vouched: VouchedBy | None
    reader: ReaderPlace | None
    sentences: Sequence[str]


class WriterRow(Struct, frozen=True):
    """A member. All moments are in Unix ms.

    - `noted_at`: when the member last noted, or (`is_expected`) since when it is expected.
    - `timeout_ms`, `domains`: the member's own declarations.
    - `held_until`: until when an operator suspends the timeout. `held_by` is the operator, and
      `held_for` the reason.
    - `silent_ms`: how long a live member has not noted while a controller served. `is_silent` is
      true from half its timeout on.
    - `out_at`: when the member is excluded if it stays silent and holds the watermark by then. Null
      if it is ahead and no other member noted a later time.
    - `session`: the process that has the member's name.
    - `held`: why the member is alive but does not note.
    - `observes`: whether the last note came from an observer. `because` lists its findings in the
      log. They are false and empty until the member notes to its current controller.
    - `times_out_in_ms`: how long until a holder of the requested domain times out.
    - `lower_without`: the lower of that domain without this holder.
    - `vouching`: by domain, the last two spells during which marks count the member.
    """

    writer: str
    state: MemberState
    times: Mapping[str, int]
    position: Offsets
    noted_at: int
    is_expected: bool
    holding_since: int | None
    excluded: Exclusion | None
    timeout_ms: int | None
    domains: Sequence[str] | None
    held_until: int | None
    held_by: str | None
    held_for: str | None
    silent_ms: int | None
    is_silent: bool
    out_at: int | None
    late: Mapping[str, LateRows]
    session: HeldName | None
    held: str | None
    observes: bool
    because: Sequence[LogFact]
    times_out_in_ms: int | None
    lower_without: int | None
    vouching: Mapping[str, Sequence[Spell]]


class WritersPage(Struct, frozen=True):
    """A page of members. Holders come first, the longest before the others, then members by time.

    - `total`: the number of members that match.
    - `states`: the number of all members by state.
    - `next`: the `start` of the next page.
    - `forgotten_seq`: the seq of the domain's last mark when a member was last forgotten. It is 0
      if none was, and null if that is not known.
    """

    now: int
    total: int
    writers: Sequence[WriterRow]
    states: Mapping[MemberState, int]
    next: int | None
    forgotten_seq: int | None = None
