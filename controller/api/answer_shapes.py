"""The answers that differ from the values that they are made of; the others are those values.

OpenAPI shows both as they are declared, see `replies.shape`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_type_hints

import msgspec

from controller.aggregation.group_backlog import Cause
from controller.aggregation.groups import GroupRow
from controller.aggregation.operator import Replaced
from controller.aggregation.order import ReaderLag
from controller.aggregation.overview import StreamRow
from controller.aggregation.segments import SegmentRow
from controller.store.port import Action
from noted_time import (
    BacklogPolicy,
    CompleteWindow,
    Mark,
    ScaleEvent,
    StreamCut,
    StreamSettings,
    TimeWindow,
)
from noted_time.values import Absence, MissingWriter
from noted_time.wing import AlignmentNow, AlignmentSettings, MemberNow

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.aggregation.group_backlog import GroupBacklog
    from controller.aggregation.operator import Corrected
    from controller.aggregation.stream import StreamState
    from controller.store.port import StreamSummary
    from noted_time import ReaderGroup, SegmentTimes
    from noted_time.values import Missing

MEMBERS_LISTED = 100
"""Maximum number of members of an alignment in a list; by itself it is shown with all."""


A = TypeVar("A")


@cache
def _names(answer: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(get_type_hints(answer))


def made_of(answer: Callable[..., A], value: object, **more: object) -> A:
    """Return an answer with what else it has of a value, field by field.

    >>> made_of(SealAnswer, StreamCut({0: 7}), at=5, cut={0: 7})
    SealAnswer(at=5, cut={0: 7})
    """
    names = _names(answer)
    return answer(**{name: getattr(value, name) for name in names if name not in more}, **more)


class SealAnswer(msgspec.Struct):
    """When (Unix ms) a stream was sealed, and its final cut."""

    at: int
    cut: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class StreamAnswer(StreamSettings):
    """A stream: its creation id, settings, last mark per domain, scale events, and its seal."""

    name: str
    id: str
    marks: Mapping[str, Mark | None]
    scale_events: Sequence[ScaleEvent]
    corrections: int
    seal: SealAnswer | None

    def __post_init__(self) -> None:
        """Check nothing: the settings were checked when they were made."""

    @classmethod
    def of(cls, summary: StreamSummary, **more: Any) -> Self:  # noqa: ANN401 - further fields
        """Return the answer of a stream."""
        record = summary.record
        return made_of(
            cls,
            record.settings,
            name=record.name,
            id=record.id,
            marks={each: summary.last_marks.get(each) for each in record.settings.domains},
            scale_events=summary.scales,
            corrections=len(record.corrections),
            seal=record.seal and SealAnswer(record.seal.at, record.seal.final_cut),
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class TruncatedAnswer(StreamAnswer):
    """The stream; how many marks of each domain were dropped, or would be.

    `beyond` says that the cut is beyond the last mark of some domain.
    """

    beyond: bool
    dropped: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class SealedAnswer(StreamAnswer):
    """The stream; `never_noted` has members that joined and noted no time, at most 1000."""

    never_noted: Sequence[str]


class StreamsPage(msgspec.Struct):
    """A page of streams by name; `next` is the `after` of the next page."""

    streams: Sequence[StreamAnswer]
    next: str | None


class CorrectedAnswer(msgspec.Struct):
    """What correcting a position does: what cuts have in place of the offsets that are replaced.

    At most 1000 of them are named.
    """

    dry_run: bool
    cuts: Mapping[int, int]
    replaced: Sequence[Replaced]

    @classmethod
    def of(cls, does: Corrected, *, dry_run: bool) -> Self:
        """Return the answer of a correction."""
        return cls(dry_run, does.correction.offsets, does.replaced)


class MarksAnswer(msgspec.Struct):
    """Marks after a seq; `stream_id` is another one if the stream was recreated under its name.

    `sealed`: no mark follows the last one. `final_cut` is where the stream ends then, null before.
    If `corrections` is more than before, read all marks again. `has_more`: the answer ended before
    the last mark there is. `quiet`: no writer is waited for, and no mark follows until one is live
    again.
    """

    stream_id: str
    scale_events: int
    corrections: int
    sealed: bool
    final_cut: Mapping[int, int] | None
    quiet: bool
    marks: Sequence[Mark]
    has_more: bool


@dataclass(frozen=True, kw_only=True)
class MissingAnswer:
    """The writers that are missing, at most 100 of `missing_count`.

    If `missing_is_known` is false, the ledger does not reach back so far, and there may be others.
    """

    missing: Sequence[MissingWriter]
    missing_count: int
    missing_is_known: bool


def _named(found: Missing) -> dict[str, Any]:
    known = {"missing_count": found.count, "missing_is_known": found.is_known}
    return {"missing": found.writers, **known}


@dataclass(frozen=True, kw_only=True)
class CutAnswer(Mark, MissingAnswer):
    """The first mark that is complete to a time, and which writers are missing at it.

    `has_position` is false if its cut is empty: its writers noted times alone, and no position
    stands behind it.
    """

    has_position: bool

    @classmethod
    def of(cls, mark: Mark, missing: Missing) -> Self:
        """Return the answer of a mark."""
        return made_of(cls, mark, **_named(missing), has_position=bool(mark.cut.offsets))


class CompleteWindowAnswer(msgspec.Struct, rename={"from_cut": "from", "to_cut": "to"}):
    """A complete window from start to end, exclusive: all its rows lie below the cut `to`.

    If it is `exact`, none of them lies below `from`. Rows of the `missing` writers, without which
    the watermark passed the window, may be missing; `excluded` names those that it first passed
    without there.
    """

    start: int
    end: int
    from_cut: StreamCut
    to_cut: StreamCut
    seq: int
    written_at: int
    excluded: Sequence[str]
    exact: bool
    missing: Sequence[MissingWriter]
    missing_count: int
    missing_is_known: bool

    @classmethod
    def of(cls, window: CompleteWindow) -> Self:
        """Return the answer of a window."""
        return made_of(cls, window, **_named(window.missing))


class CompleteWindowsPage(msgspec.Struct):
    """Complete windows in order; `next` is the `after` of the next question.

    `has_more`: the answer ended before the last one that is complete.
    """

    stream_id: str
    windows: Sequence[CompleteWindowAnswer]
    next: int | None
    has_more: bool


def windows_of(stream: StreamState, group: ReaderGroup) -> dict[str, Any]:
    """Return the time window of a group in each domain; msgspec would write tuples as lists."""
    windows = stream.windows(group.position)
    return {domain: window._asdict() for domain, window in windows.items()}


class GroupAnswer(msgspec.Struct):
    """A reader group: its combined position, each reader's segments, and the window per domain.

    `backlog` says whether it has one, `because` by what, and `since` since when in Unix ms.
    """

    position: Mapping[int, int]
    readers: Mapping[str, Mapping[int, int]]
    windows: Mapping[str, TimeWindow]
    backlog: bool
    because: Sequence[Cause]
    since: int | None

    @classmethod
    def of(
        cls,
        stream: StreamState,
        group: ReaderGroup,
        found: GroupBacklog,
        **more: object,
    ) -> Self:
        """Return the answer of a group, and whether it has a backlog."""
        segments = group.segments_by_reader()
        return made_of(
            cls,
            found,
            position=group.position,
            readers={reader: segments.get(reader, {}) for reader in sorted(group.readers)},
            windows=windows_of(stream, group),
            **more,
        )


class GroupNowAnswer(GroupAnswer):
    """The same, and per domain how far its lower is behind the watermark, and each reader."""

    now: int
    behind: Mapping[str, int | None]
    lags: Mapping[str, Mapping[str, ReaderLag]]
    backlog_policy: BacklogPolicy | None


@dataclass(frozen=True, kw_only=True)
class GroupRowAnswer(GroupRow):
    """A reader group: readers online, segments of its position, last report if any in Unix ms.

    Per domain its window, and how far its lower is behind the watermark.
    """

    windows: Mapping[str, TimeWindow]
    behind: Mapping[str, int | None]


class GroupsPage(msgspec.Struct):
    """A page of reader groups by name; `next` is the `after` of the next page."""

    now: int
    groups: Sequence[GroupRowAnswer]
    next: str | None


class SegmentTimeAnswer(msgspec.Struct):
    """How far a position is in one segment: all events there below `lower` were read.

    Null before all marks. `behind` is by how much that is below the last mark's lower.
    """

    lower: int | None
    behind: int | None


class SegmentTimesAnswer(msgspec.Struct):
    """Where a position stands in each segment; `behind` is the largest of them.

    `order` has the segments that are still to be read, least time first.
    """

    segments: Mapping[int, SegmentTimeAnswer]
    order: Sequence[int]
    behind: int | None

    @classmethod
    def of(cls, times: SegmentTimes) -> Self:
        """Return the answer of a position."""
        lag = times.lag()
        segments = {
            segment: SegmentTimeAnswer(lower, lag.segments[segment])
            for segment, lower in sorted(times.lowers.items())
        }
        return cls(segments, times.order(), lag.behind)


class EntryAnswer(msgspec.Struct, rename={"from_lower": "from", "to_lower": "to"}):
    """One mark of the ledger, `at` in Unix ms; `by` is who removed or corrected a writer.

    `returned` names the writers that are missing no longer as of this mark.
    """

    seq: int
    at: int
    from_lower: int | None
    to_lower: int
    writers: Sequence[Absence]
    by: str | None
    returned: Sequence[str]


class LedgerPage(msgspec.Struct):
    """A page of the ledger by seq; `next` is the `after` of the next page, in the same order."""

    entries: Sequence[EntryAnswer]
    next: int | None


class ChangeAnswer(msgspec.Struct, rename={"became": "is"}):
    """A change of an operator, `at` in Unix ms: `by` whom, and why if they said it.

    Of changed settings `was` and `is` have those that changed.
    """

    number: int
    at: int
    action: Action
    writer: str | None
    was: Mapping[str, Any] | None
    became: Mapping[str, Any] | None
    by: str | None
    comment: str | None


class ChangesPage(msgspec.Struct):
    """A page of the changes, the newest first; `next` is the `before` of the next page."""

    changes: Sequence[ChangeAnswer]
    next: int | None


class OverviewPage(msgspec.Struct):
    """A page of the streams that match; `next` is the `start` of the next page.

    `total` counts them, `unanswered` those whose owner did not answer.
    """

    now: int
    total: int
    unanswered: int
    streams: Sequence[StreamRow]
    next: int | None


class SegmentsPage(msgspec.Struct):
    """A page of segments by number; `next` is the `start` of the next page."""

    now: int
    segments: Sequence[SegmentRow]
    next: int | None


@dataclass(frozen=True, kw_only=True)
class AlignmentAnswer(AlignmentSettings):
    """An alignment: no member reads above `bound`, where `held_by` holds it; null is unbounded.

    `drift` is how far the fastest member is ahead of the slowest, of those that are counted.
    """

    name: str
    bound: int | None
    held_by: str | None
    drift: int | None
    members: Mapping[str, MemberNow]

    @classmethod
    def of(
        cls,
        name: str,
        settings: AlignmentSettings,
        now: AlignmentNow,
        may_read: Callable[[str], bool],
        **more: object,
    ) -> Self:
        """Return the answer of an alignment, without groups of streams that may not be read."""
        members = {
            member: each
            if each.group is None or may_read(each.group.stream)
            else replace(each, group=None)
            for member, each in now.members.items()
        }
        about = now._replace(members=members)._asdict()
        return made_of(cls, settings, name=name, **about, **more)


@dataclass(frozen=True, kw_only=True)
class AlignmentRow(AlignmentAnswer):
    """An alignment in a list, with at most 100 members: the slowest that count come first.

    If the controller that has it does not `answer`, only the settings are known.
    """

    answered: bool
    members_counted: int | None
    members_total: int | None

    @classmethod
    def shown(
        cls,
        name: str,
        settings: AlignmentSettings,
        now: AlignmentNow,
        may_read: Callable[[str], bool],
    ) -> Self:
        """Return the row of an alignment."""

        def place(member: tuple[str, MemberNow]) -> tuple[bool, int, str]:
            return not member[1].counted, member[1].time or 0, member[0]

        members = now.members
        first = dict(nsmallest(MEMBERS_LISTED, members.items(), key=place))
        return cls.of(
            name,
            settings,
            now._replace(members=first),
            may_read,
            answered=True,
            members_counted=sum(each.counted for each in members.values()),
            members_total=len(members),
        )

    @classmethod
    def unanswered(cls, name: str, settings: AlignmentSettings) -> Self:
        """Return the row of an alignment of which only the settings are known."""
        unknown = dict.fromkeys(("bound", "held_by", "drift", "members_counted", "members_total"))
        return made_of(cls, settings, name=name, answered=False, members={}, **unknown)


class AlignmentsPage(msgspec.Struct):
    """A page of alignments by name; `next` is the `after` of the next page."""

    alignments: Sequence[AlignmentRow]
    next: str | None


class AccessAnswer(msgspec.Struct):
    """Whether tokens are asked for, the id of the one that was shown, and what it permits."""

    tokens: bool
    token: str | None
    administer: bool
    read_all: bool
