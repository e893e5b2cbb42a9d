"""Answers whose fields differ from the values of the service.

The service's other values are sent unchanged. OpenAPI describes both by `encoding.shape`.
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


def convert(answer: Callable[..., A], value: object, **more: object) -> A:
    """Return an answer with the fields `more`, and all other fields from the value.

    >>> from noted_time import Waiting
    >>> convert(Waiting, Waiting("UA", 5, 20, 80), time=None)
    Waiting(writer='UA', time=None, held_for_ms=20, times_out_in_ms=80)
    """
    names = _names(answer)
    return answer(**{name: getattr(value, name) for name in names if name not in more}, **more)


class SealAnswer(msgspec.Struct):
    """When a stream was sealed (Unix ms), and its final cut."""

    at: int
    cut: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class StreamAnswer(StreamSettings):
    """A stream: its creation id, settings, last mark per domain, scale events and seal.

    `logs` are the ids of the logs that its positions were in. The present log is the last.
    """

    name: str
    id: str
    marks: Mapping[str, Mark | None]
    scale_events: Sequence[ScaleEvent]
    seal: SealAnswer | None
    logs: Sequence[str]

    def __post_init__(self) -> None:
        """Skip the checks, because the settings were checked when they were created."""

    @classmethod
    def of(cls, summary: StreamSummary, **more: Any) -> Self:  # noqa: ANN401 - further fields
        record = summary.record
        return convert(
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
    """A stream, and how many marks of each domain were dropped or would be dropped."""

    dropped: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class TruncatedAnswer(DroppedAnswer):
    """A truncated stream. `beyond` is true if the cut is beyond the last mark of some domain."""

    beyond: bool


@dataclass(frozen=True, kw_only=True)
class SealedAnswer(StreamAnswer):
    """A sealed stream. `never_noted` are members that joined but noted no time, at most 1000."""

    never_noted: Sequence[str]


class StreamsPage(msgspec.Struct):
    """A page of streams by name. `next` is the `after` of the next page."""

    streams: Sequence[StreamAnswer]
    next: str | None


class EntryAnswer(msgspec.Struct, rename={"from_lower": "from", "to_lower": "to"}):
    """One mark of the ledger. `at` is in Unix ms, and `by` is the operator who removed a writer.

    `returned` are the writers that were missing until this mark.
    """

    seq: int
    at: int
    from_lower: int | None
    to_lower: int
    writers: Sequence[Absence]
    by: str | None
    returned: Sequence[str]


class LedgerPage(msgspec.Struct):
    """A page of the ledger by seq. `next` is the `after` of the next page in the same order.

    `late` are the rows written below the lower, merged by writer and hour. At most 100 of
    the `late_count` reports are returned, newest first.
    """

    entries: Sequence[EntryAnswer]
    next: int | None
    late: Sequence[LateReport]
    late_count: int


class ChangeAnswer(msgspec.Struct, rename={"became": "is"}):
    """A change by an operator. `at` is in Unix ms, `by` is the caller, and `comment` the reason.

    For changed settings, `was` and `is` contain only the settings that changed.
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
    """A page of changes, newest first. `next` is the `before` of the next page."""

    changes: Sequence[ChangeAnswer]
    next: int | None


class SegmentsPage(msgspec.Struct):
    """A page of segments by number. `next` is the `start` of the next page."""

    now: int
    segments: Sequence[SegmentRow]
    next: int | None


class ControllerAnswer(msgspec.Struct):
    """A controller of the database: its URL, version, and the revision of its tables.

    `version` is null if noted-time is not installed. `since` is when the controller connected (Unix
    ms), or null for a database in a file, which has only one controller.
    """

    url: str
    version: str | None
    revision: str
    since: int | None
    buckets: int


class ControllersAnswer(msgspec.Struct):
    """The controllers that share the database, by URL.

    `risk` says why acknowledged notes may be lost (by a power cut or a damaged database), and the
    remedy. Without a risk it is null.
    """

    controllers: Sequence[ControllerAnswer]
    risk: str | None


class AccessAnswer(msgspec.Struct):
    """Whether tokens are required, the id of the token that was sent, and its rights.

    `read`, `write` and `writers` are the patterns of names that it is limited to. A token that may
    `administer` has no limits. `version` is the controller's version.
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
    """The marks after a seq.

    - `stream_id` differs if the stream was deleted and created again.
    - `sealed` means that no mark follows the last one.
    - `final_cut` is the end of a sealed stream, and null before.
    - `has_more` means that more marks exist than the answer has.
    - `quiet` means that the stream waits for no writer. No mark follows until a writer is live.
    - `ahead_of_stream` means that the stream's last mark has a smaller seq than the request. The
      database has then lost marks.
    - `logs` are the ids of the logs of the cuts.
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
    """The missing writers and the writers with late rows, at most 100 of each.

    `missing_joined_later` is the number of missing writers that had not joined yet. If
    `missing_is_known` or `late_is_known` is false, the records do not reach back far enough, so
    more writers may be missing or late.
    """

    missing: Sequence[MissingWriter]
    missing_count: int
    missing_joined_later: int
    missing_is_known: bool
    late: Sequence[LateWriter]
    late_count: int
    late_is_known: bool
    before_first_mark: bool


def _list_uncovered(found: Uncovered | CompleteWindow) -> dict[str, Any]:
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
    """The first mark that is complete to a time, with its missing writers and late rows.

    - `before_first_mark` means that `since`, or without it the time, is below the first mark.
    - `has_position` is false if the cut is empty because the writers noted times but no positions.
    - `vouched` says which writers vouch for the time.
    - `unmet` are the required writers that are missing or do not vouch at any mark.
    - `logs` are the ids of the logs of the cut.
    """

    has_position: bool
    vouched: VouchedBy
    unmet: Sequence[NotVouching]
    logs: Sequence[str]

    @classmethod
    def of(cls, mark: Mark, uncovered: Uncovered, **more: object) -> Self:
        more["has_position"] = bool(mark.cut.offsets)
        return convert(cls, mark, **_list_uncovered(uncovered), **more)


class CompleteWindowAnswer(msgspec.Struct, rename={"from_cut": "from", "to_cut": "to"}):
    """A complete window from `start` to `end` (exclusive). All its rows are below the cut `to`.

    - `exact` means that all its rows are at or above the cut `from`.
    - `missing` are writers that the watermark did not wait for in the window. Their rows may be
      missing.
    - `excluded` are the missing writers that were first excluded in this window.
    - `late` are the writers that wrote rows of the window below the watermark. These rows are
      beyond `to`, and more may follow.
    - `before_first_mark` means that the window starts below the first mark. It is then not known
      which writers are missing.
    - `vouched` says which writers vouch for the window.
    - `last_writer` is the writer that the watermark waited for last, until `written_at`. It is null
      if this is not known, or if the watermark advanced without the writer.
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
    last_writer: str | None

    @classmethod
    def of(cls, window: CompleteWindow, vouched: VouchedBy) -> Self:
        return convert(cls, window, **_list_uncovered(window), vouched=vouched)


class CompleteWindowsPage(msgspec.Struct):
    """Complete windows in order. `next` is the `after` of the next request.

    - `has_more` means that more complete windows exist than the answer has.
    - `logs` are the ids of the logs of the cuts.
    - `changes_are_known` is false if some reports of late rows since the requested time are no
      longer kept. Other windows may then have changed as well.
    """

    stream_id: str
    windows: Sequence[CompleteWindowAnswer]
    next: int | None
    has_more: bool
    logs: Sequence[str]
    changes_are_known: bool = True


def states_of(stream: StreamState, group: ReaderGroup) -> dict[str, State]:
    """Return by domain whether a group can expect more marks, as states of a writer."""
    states: dict[str, State] = {}
    for domain, window in stream.windows(group.position).items():
        last = stream.histories[domain].last
        is_at_end = last is None or window.lower_seq == last.seq
        is_quiet = is_at_end and stream.aggregator.domains[domain].is_quiet
        states[domain] = "finished" if window.sealed else "idle" if is_quiet else "live"
    return states


def windows_of(stream: StreamState, group: ReaderGroup) -> dict[str, Any]:
    """Return the time window of a group in each domain, as dicts: msgspec makes tuples lists."""
    windows = stream.windows(group.position)
    return {domain: window._asdict() for domain, window in windows.items()}


class GroupAnswer(msgspec.Struct):
    """A reader group: its combined position, each reader's segments, and the window per domain.

    - `states` is `idle` at the end of a quiet domain, and `finished` at the end of a sealed one.
    - `backlog` is whether the group has a backlog.
    - `because` are the reasons of the backlog.
    - `since` is when the backlog began (Unix ms).
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
        segments = group.segments_by_reader()
        return convert(
            cls,
            found,
            position=group.position,
            readers={reader: segments.get(reader, {}) for reader in sorted(group.readers)},
            windows=windows_of(stream, group),
            states=states_of(stream, group),
            **more,
        )


class GroupNowAnswer(GroupAnswer):
    """A reader group, and how far it and each reader are behind the watermark, per domain."""

    now: int
    behind: Mapping[str, int | None]
    lags: Mapping[str, Mapping[str, ReaderLag]]
    backlog_policy: BacklogPolicy | None


@dataclass(frozen=True, kw_only=True)
class GroupRowAnswer(GroupRow):
    """A reader group: readers online, segments of its position, and last report (Unix ms) if any.

    `windows` and `behind` are by domain. `behind` is how far the group's lower is behind the
    watermark.
    """

    windows: Mapping[str, TimeWindow]
    behind: Mapping[str, int | None]


class GroupsPage(msgspec.Struct):
    """A page of reader groups by name. `next` is the `after` of the next page."""

    now: int
    groups: Sequence[GroupRowAnswer]
    next: str | None


class SegmentTimeAnswer(msgspec.Struct):
    """How far a position is in one segment. All its events below `lower` were read.

    `lower` is null before all marks. `behind` is how far it is below the last mark's lower.
    """

    lower: int | None
    behind: int | None


class SegmentTimesAnswer(msgspec.Struct):
    """How far a position is in each segment. `behind` is the largest of the segments.

    `order` are the segments that are still to be read, least time first.
    """

    segments: Mapping[int, SegmentTimeAnswer]
    order: Sequence[int]
    behind: int | None

    @classmethod
    def of(cls, times: SegmentTimes) -> Self:
        lag = times.lag()
        segments = {
            segment: SegmentTimeAnswer(lower, lag.segments[segment])
            for segment, lower in sorted(times.lowers.items())
        }
        return cls(segments, times.order(), lag.behind)
