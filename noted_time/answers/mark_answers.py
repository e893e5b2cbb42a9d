"""The controller's answers about marks, cuts and complete windows."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from noted_time.json_types import Offsets
from noted_time.reading import CompleteWindow, Gaps
from noted_time.values import Int64, Mark, StreamCut, VouchedBy


class MarksAnswer(Struct, frozen=True, kw_only=True):
    """The marks after a seq.

    - `stream_id` differs if the stream was deleted and created again.
    - `sealed` means that no mark follows the last one.
    - `final_cut` is the end of a sealed stream, and null before.
    - `quiet` means that the stream waits for no writer. No mark follows until a writer is live.
    - `ahead_of_stream` means that the database has lost marks: the last seq is below the request's.
    - `first_lower` is the lower of the domain's first mark ever, and null before.
    - `logs` are the ids of the logs of the cuts.
    """

    stream_id: str
    scale_events: int
    sealed: bool = False
    final_cut: Offsets | None = None
    quiet: bool = False
    marks: tuple[Mark, ...]
    has_more: bool = False
    ahead_of_stream: bool = False
    first_lower: Int64 | None = None
    logs: tuple[str, ...] = ()


class CutAnswer(Gaps, frozen=True, kw_only=True):
    """The first mark that is complete to a time, with its missing writers and late rows.

    At most 100 missing writers and 100 writers with late rows are listed. If `missing_is_known` or
    `late_is_known` is false, the records do not reach back far enough, so there may be more.

    - `missing_joined_later` is the number of missing writers that had not joined yet.
    - `before_first_mark` means that the time is below `first_lower`, the lower of the stream's
      first mark ever, and that the stream is not sealed.
    - `has_position` is false if the cut is empty because the writers noted times but no positions.
    - `vouched` says which writers vouch for the time.
    - `logs` are the ids of the logs of the cut.
    """

    seq: int
    lower: Int64
    upper: Int64
    cut: StreamCut
    written_at: Int64 = 0
    excluded: tuple[str, ...] = ()
    upper_is_bound: bool = False
    final: bool = False
    excluded_count: int | UnsetType = UNSET
    has_position: bool
    first_lower: Int64 | None
    vouched: VouchedBy
    logs: tuple[str, ...]


class CompleteWindowsPage(Struct, frozen=True, kw_only=True):
    """Complete windows in order. `next` is the `after` of the next request.

    - `logs` are the ids of the logs of the cuts.
    - `changes_are_known` is false if reports of late rows since the requested time were deleted or
      have no least time. Other windows may then have changed as well. It is also false if that time
      is over an hour ahead of the controller's clock, or within an hour of a step of this clock. It
      is null without `changed_since`.
    - `looked_at` is the `changed_since` of the next request: it misses no report, even if the
      clock was set. It is null without `changed_since`, and in a database of before until the
      stream's next note.
    - `writers_without_least` are at most 100 writers that reported no least time.
    - `waiting_for` are at most 5 writers that the watermark waits for, the longest first.
      `holding_back_count` is the number of all.
    - `sealed`: the cut of the last mark has all rows of a sealed stream. So the stream is complete
      to any time, also after the last window.
    """

    stream_id: str
    windows: tuple[CompleteWindow, ...]
    next: Int64 | None
    has_more: bool
    logs: tuple[str, ...]
    changes_are_known: bool | None = None
    writers_without_least: tuple[str, ...] = ()
    looked_at: Int64 | None = None
    waiting_for: tuple[str, ...] = ()
    holding_back_count: int = 0
    sealed: bool = False
