"""The answers about streams, their ledgers and changes, and about controllers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from noted_time.json_types import Offsets
from noted_time.open_enum import OpenEnum
from noted_time.values import Absence, LateReport, Mark, ScaleEvent, StatedForm, StreamSettings

Action = OpenEnum[
    "created",
    "settings",
    "scaled",
    "truncated",
    "removed",
    "timeout_suspended",
    "timeout_resumed",
    "backlog_policy",
    "sealed",
    "taken_over",
    "went_back",
    "event_time_form",
]
"""Operators make all changes but `taken_over` (a live writer's name) and `went_back` (marks)."""


class SealAnswer(Struct, frozen=True, kw_only=True):
    """When a stream was sealed (Unix ms), and its final cut."""

    at: int
    cut: Offsets


class StreamAnswer(StreamSettings, frozen=True, kw_only=True):
    """A stream: its creation id, settings, last mark per domain, scale events and seal.

    `logs` are the ids of the logs that its positions were in. The current log is the last.
    `event_time_forms` say for each domain how the event times of its log are read, each
    with the first position that it holds for.
    """

    name: str
    id: str
    marks: Mapping[str, Mark | None]
    scale_events: Sequence[ScaleEvent]
    seal: SealAnswer | None
    logs: Sequence[str]
    event_time_forms: Mapping[str, Sequence[StatedForm]] = {}


class DroppedAnswer(StreamAnswer, frozen=True, kw_only=True):
    """A stream, and how many marks of each domain were dropped or would be dropped."""

    dropped: Mapping[str, int]


class TruncatedAnswer(DroppedAnswer, frozen=True, kw_only=True):
    """A truncated stream. `beyond` is true if the cut is beyond the last mark of some domain."""

    beyond: bool


class SealedAnswer(StreamAnswer, frozen=True, kw_only=True):
    """A sealed stream. `never_noted` are members that joined but noted no time, at most 1000."""

    never_noted: Sequence[str]


class StreamsPage(Struct, frozen=True, kw_only=True):
    """A page of streams by name. `next` is the `after` of the next page."""

    streams: Sequence[StreamAnswer]
    next: str | None


class EntryAnswer(Struct, frozen=True):
    """One mark of the ledger. `at` is in Unix ms, and `by` is the operator who removed a writer.

    `returned_writers` are the writers that were missing until this mark.
    """

    seq: int
    at: int
    from_lower: int | None
    to_lower: int
    writers: tuple[Absence, ...]
    by: str | None = None
    returned_writers: tuple[str, ...] = ()


class LedgerPage(Struct, frozen=True, kw_only=True):
    """A page of the ledger by seq. `next` is the `after` of the next page in the same order.

    `late_reports` are the rows written below the lower, merged by writer and hour. At most 100 of
    the `late_report_count` reports are returned, newest first.
    """

    entries: Sequence[EntryAnswer]
    next: int | None
    late_reports: Sequence[LateReport]
    late_report_count: int


class ChangeAnswer(Struct, frozen=True):
    """A change by an operator. `at` is in Unix ms, `by` is the caller, and `comment` the reason.

    For changed settings, `old_values` and `new_values` contain only the settings that changed.
    """

    number: int
    at: int
    action: Action
    writer: str | None
    old_values: Mapping[str, Any] | None
    new_values: Mapping[str, Any] | None
    by: str | None
    comment: str | None


class ChangesPage(Struct, frozen=True, kw_only=True):
    """A page of changes, newest first. `next` is the `before` of the next page."""

    changes: Sequence[ChangeAnswer]
    next: int | None


SegmentState = OpenEnum["open", "sealed", "truncated"]


class SegmentRow(Struct, frozen=True):
    """A segment, with its offsets at its first and last marks.

    - `state`: a segment is `truncated` if it is sealed and the first kept mark covers all its rows.
    - `last_offset`: the final offset if the segment or the stream is sealed.
    - `writers`: up to 10 members whose positions contain the segment. `writers_total` is the number
      of all, among the first 10,000 members.
    """

    segment: int
    state: SegmentState
    predecessors: Sequence[int]
    successors: Sequence[int]
    first_offset: int | None
    last_offset: int | None
    writers: Sequence[str]
    writers_total: int


class SegmentsPage(Struct, frozen=True, kw_only=True):
    """A page of segments by number. `next` is the `start` of the next page."""

    now: int
    segments: Sequence[SegmentRow]
    next: int | None


class Replica(Struct, frozen=True):
    """A controller of the database: its URL, version, and the revision of its tables.

    `version` is null if noted-time is not installed. `connected_at` is when the controller
    connected (Unix ms), or null for a database in a file, which has only one controller.
    `zone_data` is the release of its time zones, such as 2026a. It is null if that is not known,
    also of a controller of an older version.
    """

    url: str
    version: str | None
    revision: str
    connected_at: int | None
    zone_data: str | None = None


class ControllerAnswer(Replica, frozen=True, kw_only=True):
    """A controller of the database, and how many buckets of streams it owns."""

    buckets: int


class ControllersAnswer(Struct, frozen=True, kw_only=True):
    """The controllers that share the database, by URL.

    `risk` says why acknowledged notes may be lost (by a power cut or a damaged database), and the
    remedy.
    """

    controllers: Sequence[ControllerAnswer]
    risk: str | None


class AccessAnswer(Struct, frozen=True, kw_only=True):
    """Whether tokens are required, the id of the token that was sent, and its rights.

    `read`, `write`, `writers` and `observe` are the patterns of names that it is limited to. A
    token that may `administer` has no limits. `version` is the controller's version, and
    `zone_data` the release of its time zones, or null if it is not known.
    """

    version: str
    tokens: bool
    token: str | None
    administer: bool
    read_all: bool
    read: Sequence[str]
    write: Sequence[str]
    writers: Sequence[str]
    observe: Sequence[str] = ()
    zone_data: str | None = None
