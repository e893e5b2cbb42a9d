"""The answers that differ from the values that they consist of; the others are those values.

OpenAPI shows both as they are declared, see `encoding.shape`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, TypeVar, get_type_hints

import msgspec

from controller.aggregation.group_backlog import Cause, GroupBacklog
from controller.aggregation.groups import GroupRow
from controller.aggregation.stream import StreamState
from controller.aggregation.views.reader_lags import ReaderLag
from controller.aggregation.views.segments import SegmentRow
from controller.store.port import Action, StreamSummary
from noted_time import (
    BacklogPolicy,
    CompleteWindow,
    Mark,
    ReaderGroup,
    ScaleEvent,
    SegmentTimes,
    StreamCut,
    StreamSettings,
    TimeWindow,
)
from noted_time.reading import Uncovered
from noted_time.values import (
    Absence,
    LateReport,
    LateWriter,
    MissingWriter,
    NotVouching,
    State,
    VouchedBy,
)

A = TypeVar("A")


@cache
def _names(answer: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(get_type_hints(answer))


def made_of(answer: Callable[..., A], value: object, **more: object) -> A:
    """Return an answer with these fields, and its others as the value has them.

    >>> from noted_time import Waiting
    >>> made_of(Waiting, Waiting("UA", 5, 20, 80), time=None)
    Waiting(writer='UA', time=None, held_for_ms=20, times_out_in_ms=80)
    """
    names = _names(answer)
    return answer(**{name: getattr(value, name) for name in names if name not in more}, **more)


class SealAnswer(msgspec.Struct):
    """When (Unix ms) a stream was sealed, and its final cut."""

    at: int
    cut: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class StreamAnswer(StreamSettings):
    """A stream: its creation id, settings, last mark per domain, scale events, and its seal.

    `logs` are the ids of the logs that its positions are of, the present one last.
    """

    name: str
    id: str
    marks: Mapping[str, Mark | None]
    scale_events: Sequence[ScaleEvent]
    seal: SealAnswer | None
    logs: Sequence[str]

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
            seal=record.seal and SealAnswer(record.seal.at, record.seal.final_cut),
            logs=record.logs,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class DroppedAnswer(StreamAnswer):
    """The stream; how many marks of each domain were dropped, or would be."""

    dropped: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class TruncatedAnswer(DroppedAnswer):
    """`beyond` says that the cut is beyond the last mark of some domain."""

    beyond: bool


@dataclass(frozen=True, kw_only=True)
class SealedAnswer(StreamAnswer):
    """The stream; `never_noted` has members that joined and noted no time, at most 1000."""

    never_noted: Sequence[str]


class StreamsPage(msgspec.Struct):
    """A page of streams by name; `next` is the `after` of the next page."""

    streams: Sequence[StreamAnswer]
    next: str | None


class EntryAnswer(msgspec.Struct, rename={"from_lower": "from", "to_lower": "to"}):
    """One mark of the ledger, `at` in Unix ms; `by` is who removed a writer.

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
    """A page of the ledger by seq; `next` is the `after` of the next page, in the same order.

    `late` has the rows written below the lower, merged by writer and by hours, the last reported
    first: at most 100 of `late_count`.
    """

    entries: Sequence[EntryAnswer]
    next: int | None
    late: Sequence[LateReport]
    late_count: int


class ChangeAnswer(msgspec.Struct, rename={"became": "is"}):
    """A change of an operator, `at` in Unix ms: `by` whom, and the reason if one was given.

    For changed settings, `was` and `is` have those that changed.
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


class SegmentsPage(msgspec.Struct):
    """A page of segments by number; `next` is the `start` of the next page."""

    now: int
    segments: Sequence[SegmentRow]
    next: int | None


class ControllerAnswer(msgspec.Struct):
    """A controller of the database: where others reach it, its version, the revision of its tables.

    The version is null if noted-time is not installed. It connected at `since` (Unix ms), which is
    null for the only controller of a file.
    """

    url: str
    version: str | None
    revision: str
    since: int | None
    buckets: int


class ControllersAnswer(msgspec.Struct):
    """The controllers that share the database, by their URLs.

    `risk` says why what was acknowledged may be lost, by a power cut or as the database is damaged,
    and the remedy; else it is null.
    """

    controllers: Sequence[ControllerAnswer]
    risk: str | None


class AccessAnswer(msgspec.Struct):
    """Whether tokens are required, the id of the one that was shown, and what it permits.

    `read`, `write` and `writers` are the patterns of names to which it is narrowed; who may
    `administer` needs none. `version` is that of the controller.
    """

    version: str
    tokens: bool
    token: str | None
    administer: bool
    read_all: bool
    read: Sequence[str]
    write: Sequence[str]
    writers: Sequence[str]


class MarksAnswer(msgspec.Struct):
    """Marks after a seq; `stream_id` is another one if the stream was recreated under its name.

    `sealed`: no mark follows the last one. `final_cut` is where the stream ends then, null before.
    `has_more`: the answer ended before the last mark there is. `quiet`: the stream waits for no
    writer, and no mark follows until one is live again. `ahead_of_stream`: the stream's last mark
    has a smaller seq than the one asked for, so the database has lost marks. `logs` are the ids of
    the logs that cuts are of.
    """

    stream_id: str
    scale_events: int
    sealed: bool
    final_cut: Mapping[int, int] | None
    quiet: bool
    marks: Sequence[Mark]
    has_more: bool
    ahead_of_stream: bool
    logs: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class UncoveredAnswer:
    """The writers that are missing, and those with late rows: at most 100 of each are named.

    `missing_joined_later` counts the missing writers that were no members yet. If
    `missing_is_known` or `late_is_known` is false, what was recorded does not reach back so far,
    and there may be others.
    """

    missing: Sequence[MissingWriter]
    missing_count: int
    missing_joined_later: int
    missing_is_known: bool
    late: Sequence[LateWriter]
    late_count: int
    late_is_known: bool
    before_first_mark: bool


def _uncovered(found: Uncovered | CompleteWindow) -> dict[str, Any]:
    missing, late = found.missing, found.late
    return {
        "missing": missing.writers,
        "missing_count": missing.count,
        "missing_joined_later": missing.joined_later,
        "missing_is_known": missing.is_known,
        "late": late.writers,
        "late_count": late.count,
        "late_is_known": late.is_known,
        "before_first_mark": found.before_first_mark,
    }


@dataclass(frozen=True, kw_only=True)
class CutAnswer(Mark, UncoveredAnswer):
    """The first mark that is complete to a time, and what it lacks: missing writers and late rows.

    `before_first_mark`: `since`, or without it the time itself, is below the first mark there ever
    was.
    `has_position` is false if its cut is empty, because its writers noted times and no position.
    `vouched` says by whom it is complete to the time, and `unmet` what of the question no mark has:
    writers that are required and do not vouch, or are missing. `logs` are the ids of the logs that
    it is of.
    """

    has_position: bool
    vouched: VouchedBy
    unmet: Sequence[NotVouching]
    logs: Sequence[str]

    @classmethod
    def of(cls, mark: Mark, uncovered: Uncovered, **more: object) -> Self:
        """Return the answer of a mark."""
        more["has_position"] = bool(mark.cut.offsets)
        return made_of(cls, mark, **_uncovered(uncovered), **more)


class CompleteWindowAnswer(msgspec.Struct, rename={"from_cut": "from", "to_cut": "to"}):
    """A complete window from start to end, exclusive: all its rows lie below the cut `to`.

    If it is `exact`, none of them lies below `from`. Rows of the `missing` writers, without which
    the watermark passed the window, may be missing; `excluded` names those that it first passed
    without there. `late` has the writers that wrote rows of it below the watermark: they are
    beyond `to`, and more may follow. `before_first_mark`: it begins below the first mark there ever
    was, so it is not known who is missing. `vouched` says by whom it is complete.
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
    missing_joined_later: int
    missing_is_known: bool
    late: Sequence[LateWriter]
    late_count: int
    late_is_known: bool
    before_first_mark: bool
    vouched: VouchedBy

    @classmethod
    def of(cls, window: CompleteWindow, vouched: VouchedBy) -> Self:
        """Return the answer of a window."""
        return made_of(cls, window, **_uncovered(window), vouched=vouched)


class CompleteWindowsPage(msgspec.Struct):
    """Complete windows in order; `next` is the `after` of the next request.

    `has_more`: the answer ended before the last one that is complete. `logs` are the ids of the
    logs that cuts are of. If `changes_are_known` is false, reports of late rows from after the
    moment asked about are no longer kept: other windows may have changed, too.
    """

    stream_id: str
    windows: Sequence[CompleteWindowAnswer]
    next: int | None
    has_more: bool
    logs: Sequence[str]
    changes_are_known: bool = True


def states_of(stream: StreamState, group: ReaderGroup) -> dict[str, State]:
    """Return by domain whether a group can expect more, as clients report themselves."""
    states: dict[str, State] = {}
    for domain, window in stream.windows(group.position).items():
        last = stream.histories[domain].last
        is_at_end = last is None or window.lower_seq == last.seq
        is_quiet = is_at_end and stream.aggregator.domains[domain].is_quiet
        states[domain] = "finished" if window.sealed else "idle" if is_quiet else "live"
    return states


def windows_of(stream: StreamState, group: ReaderGroup) -> dict[str, Any]:
    """Return the time window of a group in each domain; msgspec would write tuples as lists."""
    windows = stream.windows(group.position)
    return {domain: window._asdict() for domain, window in windows.items()}


class GroupAnswer(msgspec.Struct):
    """A reader group: its combined position, each reader's segments, and the window per domain.

    `states` are `idle` at the end of a quiet domain, `finished` at that of a sealed one. `backlog`
    is whether it has one, `because` the reasons, and `since` its beginning in Unix ms.
    """

    position: Mapping[int, int]
    readers: Mapping[str, Mapping[int, int]]
    windows: Mapping[str, TimeWindow]
    states: Mapping[str, State]
    backlog: bool
    because: Sequence[Cause]
    since: int | None

    @classmethod
    def of(
        cls, stream: StreamState, group: ReaderGroup, found: GroupBacklog, **more: object
    ) -> Self:
        """Return the answer of a group, and whether it has a backlog."""
        segments = group.segments_by_reader()
        return made_of(
            cls,
            found,
            position=group.position,
            readers={reader: segments.get(reader, {}) for reader in sorted(group.readers)},
            windows=windows_of(stream, group),
            states=states_of(stream, group),
            **more,
        )


class GroupNowAnswer(GroupAnswer):
    """A reader group, and per domain how far its lower and each reader are behind the watermark."""

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
