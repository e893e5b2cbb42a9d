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

    - `behind`: its largest lag, null if a segment is before all marks.
    - `rank`: the number of its unfinished segments, times its `behind` as a share of the group's
      largest. An unknown `behind` counts as the largest.

    The reader with the greatest rank should hand over segments first.
    """

    behind: int | None
    rank: float


class GroupAnswer(Struct, frozen=True, kw_only=True):
    """A reader group: its combined position, each reader's segments, and the window per domain.

    - `states` is `idle` at the end of a quiet domain, and `finished` at the end of a sealed one.
    - `because` are the reasons of the backlog, which began at `since` (Unix ms).
    """

    position: Offsets
    readers: Mapping[str, Offsets]
    windows: Mapping[str, TimeWindow]
    states: Mapping[str, State]
    backlog: bool
    because: Sequence[Cause]
    since: int | None


class GroupNowAnswer(GroupAnswer, frozen=True, kw_only=True):
    """A reader group, and how far it and each reader are behind the watermark, per domain."""

    now: int
    behind: Mapping[str, int | None]
    lags: Mapping[str, Mapping[str, ReaderLag]]
    backlog_policy: BacklogPolicy | None


class GroupRow(Struct, frozen=True):
    """A row of a list: the readers online, and when a reader last reported, in Unix ms."""

    group: str
    readers: int
    segments: int
    reported_at: int | None


class GroupRowAnswer(GroupRow, frozen=True, kw_only=True):
    """A reader group: readers online, segments of its position, and last report (Unix ms) if any.

    `windows` and `behind` are by domain. `behind` is how far the group's lower is behind the
    watermark.
    """

    windows: Mapping[str, TimeWindow]
    behind: Mapping[str, int | None]


class GroupsPage(Struct, frozen=True, kw_only=True):
    """A page of reader groups by name. `next` is the `after` of the next page."""

    now: int
    groups: Sequence[GroupRowAnswer]
    next: str | None


class SegmentTimeAnswer(Struct, frozen=True, kw_only=True):
    """How far a position is in one segment. All its events below `lower` were read.

    `lower` is null before all marks. `behind` is how far it is below the last mark's lower.
    """

    lower: int | None
    behind: int | None


class SegmentTimesAnswer(Struct, frozen=True, kw_only=True):
    """How far a position is in each segment. `behind` is the largest of the segments.

    `order` are the segments that are still to be read, least time first.
    """

    segments: Mapping[int, SegmentTimeAnswer]
    order: Sequence[int]
    behind: int | None
