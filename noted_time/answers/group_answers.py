"""The answers about reader groups and the positions of readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from noted_time.json_types import Offsets
from noted_time.progress import BacklogPolicy, Reason
from noted_time.values import State, TimeWindow


class Cause(Struct, frozen=True):
    """The cause of a backlog: the lag in a domain, or the report of a reader (`reported`)."""

    reason: Reason
    domain: str | None = None
    reader: str | None = None


class ReaderLag(Struct, frozen=True):
    """How far a reader of a group is behind the last mark.

    - `lag`: its largest lag, null if a segment is before all marks.
    - `rank`: the number of its unfinished segments, times its `lag` as a share of the group's
      largest. An unknown `lag` counts as the largest.

    The reader with the greatest rank should hand over segments first.
    """

    lag: int | None
    rank: float


class GroupAnswer(Struct, frozen=True, kw_only=True):
    """A reader group: its combined position, each reader's segments, and the window per domain.

    - `states` is `idle` at the end of a quiet domain, and `finished` at the end of a sealed one.
    - `backlog_causes` are the reasons of the backlog, which began at `backlog_began_at` (Unix ms).
    """

    position: Offsets
    readers: Mapping[str, Offsets]
    windows: Mapping[str, TimeWindow]
    states: Mapping[str, State]
    backlog: bool
    backlog_causes: Sequence[Cause]
    backlog_began_at: int | None


class GroupNowAnswer(GroupAnswer, frozen=True, kw_only=True):
    """A reader group, and how far it and each reader are behind the watermark, per domain."""

    now: int
    lag: Mapping[str, int | None]
    reader_lags: Mapping[str, Mapping[str, ReaderLag]]
    backlog_policy: BacklogPolicy | None


class GroupRow(Struct, frozen=True):
    """A row of a list: the readers online, and when a reader last reported, in Unix ms."""

    group: str
    readers: int
    segments: int
    reported_at: int | None


class GroupRowAnswer(GroupRow, frozen=True, kw_only=True):
    """A reader group: readers online, segments of its position, and last report (Unix ms) if any.

    `windows` and `lag` are by domain. `lag` is how far the group's lower is behind the
    watermark.
    """

    windows: Mapping[str, TimeWindow]
    lag: Mapping[str, int | None]


class GroupsPage(Struct, frozen=True, kw_only=True):
    """A page of reader groups by name. `next` is the `after` of the next page."""

    now: int
    groups: Sequence[GroupRowAnswer]
    next: str | None


class SegmentTimeAnswer(Struct, frozen=True, kw_only=True):
    """How far a position is in one segment. All its events below `lower` were read.

    `lower` is null before all marks. `lag` is how far it is below the last mark's lower.
    """

    lower: int | None
    lag: int | None


class SegmentTimesAnswer(Struct, frozen=True, kw_only=True):
    """How far a position is in each segment. `lag` is the largest of the segments.

    `order` are the segments that are still to be read, least time first.
    """

    segments: Mapping[int, SegmentTimeAnswer]
    order: Sequence[int]
    lag: int | None
