"""The answers about writers, and the explanation of a watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from noted_time.answers.overviews import Condition, Silence
from noted_time.json_types import Offsets
from noted_time.open_enum import OpenEnum
from noted_time.reading import ReaderPlace
from noted_time.values import (
    CurrentSession,
    DecisionName,
    DryRun,
    Exclusion,
    Forecast,
    Int64,
    LateRows,
    LogFact,
    MemberState,
    Overtaking,
    Spell,
    VouchedBy,
    Waiting,
)

HintKind = OpenEnum[
    "taken_over", "fenced", "too_far_ahead", "ahead_of_clock", "seconds", "no_position", "late"
]


class Hint(Struct, frozen=True):
    """A writer whose notes look wrong. `detail` continues a sentence that starts with its name.

    - `taken_over`: its name was taken over at least three times in the last minute.
    - `fenced`: two processes noted under its name within the hour.
    - `too_far_ahead`: its last notes with a time were refused within the hour.
    - `ahead_of_clock`: it noted a time more than 5 s ahead of the controller's clock.
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
    - `waiting_for`: some of the members that hold it back, the longest first.
      `holding_back_count` is the number of all.
    - `overtaking`: the later time that another writer has noted, for more than 10 s, or null.
    - `lower_without`: the lower that the stream would have without each writer in `waiting_for`.
    - `forecast`: when (Unix ms) and how far the watermark advances if none of them notes. Null if
      it does not advance, or if too many writers would be excluded first.
    - `dry_run`: the result of the dry run.
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
    holding_back_count: int
    overtaking: Overtaking | None
    lower_without: Mapping[str, Int64 | None]
    forecast: Forecast | None
    dry_run: DryRun | None
    hints: Sequence[Hint]
    silence: Silence | None
    vouched: VouchedBy | None
    reader: ReaderPlace | None
    sentences: Sequence[str]


class WriterRow(Struct, frozen=True):
    """A member. All moments are in Unix ms.

    - `noted_at`: when the member last noted, or (`is_expected`) since when it is expected.
    - `timeout_ms`, `domains`: the member's own declarations.
    - `suspension_ends_at`: until when an operator suspends the timeout. `suspended_by` is the
      operator, and `suspension_reason` the reason.
    - `silent_ms`: how long a live member has not noted while a controller served. `is_silent` is
      true from half its timeout on.
    - `times_out_at`: when the member is excluded if it stays silent and holds back the watermark by
      then. Null if it is ahead and no other member noted a later time.
    - `session`: the process that has the member's name.
    - `no_time_reason`: why the member is alive but does not note.
    - `observes`: whether the last note came from an observer. `because` lists its findings in the
      log. They are false and empty until the member notes to its current controller.
    - `times_out_in_ms`: how long until it times out, if it holds back the requested domain.
    - `lower_without`: the lower of that domain without it.
    - `vouching`: by domain, the last two spells during which marks count the member.
    - `contact`: whom to ask about it, or null if it stated none.
    """

    writer: str
    state: MemberState
    times: Mapping[str, int]
    position: Offsets
    noted_at: int
    is_expected: bool
    holding_back_began_at: int | None
    excluded: Exclusion | None
    timeout_ms: int | None
    domains: Sequence[str] | None
    suspension_ends_at: int | None
    suspended_by: str | None
    suspension_reason: str | None
    silent_ms: int | None
    is_silent: bool
    times_out_at: int | None
    late_rows: Mapping[str, LateRows]
    session: CurrentSession | None
    no_time_reason: str | None
    observes: bool
    because: Sequence[LogFact]
    times_out_in_ms: int | None
    lower_without: int | None
    vouching: Mapping[str, Sequence[Spell]]
    contact: str | None = None


class WritersPage(Struct, frozen=True):
    """A page of members: first those that hold back the watermark, then the others by time.

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
