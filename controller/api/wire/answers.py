"""Answers whose fields differ from the values of the service.

The service's other values are sent unchanged. OpenAPI describes both by `encoding.shape`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from controller.aggregation.group_backlog import Cause, GroupBacklog
from controller.aggregation.groups import GroupRow
from controller.aggregation.stream import StreamState
from controller.aggregation.views.reader_lags import ReaderLag
from controller.aggregation.views.segments import SegmentRow
from controller.store.port import Action, StreamSummary
from noted_time import (
    BacklogPolicy,
    Mark,
    ReaderGroup,
    ScaleEvent,
    SegmentTimes,
    StreamSettings,
    TimeWindow,
)
from noted_time.answers import list_fields
from noted_time.client import Json
from noted_time.values import Absence, LateReport, State


def convert(answer: Callable[..., Any], value: object = None, /, **more: object) -> Json:
    """Return an answer's JSON object with the fields `more`, and all other fields from the value.

    >>> from noted_time import Waiting
    >>> convert(Waiting, Waiting("UA", 5, 20, 80), time=None)
    {'writer': 'UA', 'time': None, 'held_for_ms': 20, 'times_out_in_ms': 80}
    """
    return {each.name: _find(each.attribute, value, more) for each in list_fields(answer)}


def _find(path: str, value: object, more: Mapping[str, object]) -> object:
    name, _, below = path.partition(".")
    found = more[name] if name in more else getattr(value, name)
    return getattr(found, below) if below else found


class SealAnswer:
    """When a stream was sealed (Unix ms), and its final cut."""

    at: int
    cut: Mapping[int, int]


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

    @classmethod
    def of(cls, summary: StreamSummary, **more: object) -> Json:
        record = summary.record
        return convert(
            cls,
            record.settings,
            name=record.name,
            id=record.id,
            marks={each: summary.last_marks.get(each) for each in record.settings.domains},
            scale_events=summary.scales,
            seal=record.seal and convert(SealAnswer, record.seal, cut=record.seal.final_cut),
            logs=record.logs,
            **more,
        )


class DroppedAnswer(StreamAnswer):
    """A stream, and how many marks of each domain were dropped or would be dropped."""

    dropped: Mapping[str, int]


class TruncatedAnswer(DroppedAnswer):
    """A truncated stream. `beyond` is true if the cut is beyond the last mark of some domain."""

    beyond: bool


class SealedAnswer(StreamAnswer):
    """A sealed stream. `never_noted` are members that joined but noted no time, at most 1000."""

    never_noted: Sequence[str]


class StreamsPage:
    """A page of streams by name. `next` is the `after` of the next page."""

    streams: Sequence[StreamAnswer]
    next: str | None


class EntryAnswer:
    """One mark of the ledger. `at` is in Unix ms, and `by` is the operator who removed a writer.

    `returned` are the writers that were missing until this mark.
    """

    JSON_NAMES: ClassVar = {"from_lower": "from", "to_lower": "to"}

    seq: int
    at: int
    from_lower: int | None
    to_lower: int
    writers: Sequence[Absence]
    by: str | None
    returned: Sequence[str]


class LedgerPage:
    """A page of the ledger by seq. `next` is the `after` of the next page in the same order.

    `late` are the rows written below the lower, merged by writer and hour. At most 100 of
    the `late_count` reports are returned, newest first.
    """

    entries: Sequence[EntryAnswer]
    next: int | None
    late: Sequence[LateReport]
    late_count: int


class ChangeAnswer:
    """A change by an operator. `at` is in Unix ms, `by` is the caller, and `comment` the reason.

    For changed settings, `was` and `is` contain only the settings that changed.
    """

    JSON_NAMES: ClassVar = {"became": "is"}

    number: int
    at: int
    action: Action
    writer: str | None
    was: Mapping[str, Any] | None
    became: Mapping[str, Any] | None
    by: str | None
    comment: str | None


class ChangesPage:
    """A page of changes, newest first. `next` is the `before` of the next page."""

    changes: Sequence[ChangeAnswer]
    next: int | None


class SegmentsPage:
    """A page of segments by number. `next` is the `start` of the next page."""

    now: int
    segments: Sequence[SegmentRow]
    next: int | None


class ControllerAnswer:
    """A controller of the database: its URL, version, and the revision of its tables.

    `version` is null if noted-time is not installed. `since` is when the controller connected (Unix
    ms), or null for a database in a file, which has only one controller.
    """

    url: str
    version: str | None
    revision: str
    since: int | None
    buckets: int


class ControllersAnswer:
    """The controllers that share the database, by URL.

    `risk` says why acknowledged notes may be lost (by a power cut or a damaged database), and the
    remedy. Without a risk it is null.
    """

    controllers: Sequence[ControllerAnswer]
    risk: str | None


class AccessAnswer:
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


class GroupAnswer:
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
    ) -> Json:
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


class GroupRowAnswer(GroupRow):
    """A reader group: readers online, segments of its position, and last report (Unix ms) if any.

    `windows` and `behind` are by domain. `behind` is how far the group's lower is behind the
    watermark.
    """

    windows: Mapping[str, TimeWindow]
    behind: Mapping[str, int | None]


class GroupsPage:
    """A page of reader groups by name. `next` is the `after` of the next page."""

    now: int
    groups: Sequence[GroupRowAnswer]
    next: str | None


class SegmentTimeAnswer:
    """How far a position is in one segment. All its events below `lower` were read.

    `lower` is null before all marks. `behind` is how far it is below the last mark's lower.
    """

    lower: int | None
    behind: int | None


class SegmentTimesAnswer:
    """How far a position is in each segment. `behind` is the largest of the segments.

    `order` are the segments that are still to be read, least time first.
    """

    segments: Mapping[int, SegmentTimeAnswer]
    order: Sequence[int]
    behind: int | None

    @classmethod
    def of(cls, times: SegmentTimes) -> Json:
        lag = times.lag()
        segments = {
            segment: convert(SegmentTimeAnswer, lower=lower, behind=lag.segments[segment])
            for segment, lower in sorted(times.lowers.items())
        }
        return convert(cls, segments=segments, order=times.order(), behind=lag.behind)
