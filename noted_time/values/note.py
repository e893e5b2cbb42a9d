"""Notes of writers, and the answers to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct, field

from noted_time.open_enum import OpenEnum
from noted_time.values.cut import Offset, Position, SegmentNumber
from noted_time.values.errors import AnotherLog, InvalidNote, Rejected
from noted_time.values.fencing import FORMER_KEPT, LABEL_LENGTH, Session
from noted_time.values.spelling import LINE_SCHEMA, NAME_SCHEMA, Id, Line, Name, OtherLog
from noted_time.values.times import (
    MAX_INT64,
    MIN_INT64,
    Beyond,
    Int64,
    PositiveInt64,
    refuse_seconds,
)
from noted_time.values.writer_state import Exclusion, LateRows

State = OpenEnum["live", "idle", "finished"]
"""The watermark waits only for live writers. The position of a finished writer is final."""

RefusedStatus = OpenEnum[
    "invalid_time",
    "invalid_position",
    "implausible_position",
    "implausible_time",
    "unknown_domain",
    "superseded",
    "fenced",
    "too_far_ahead",
    "too_many_segments",
    "too_many_writers",
    "unknown_writer",
    "not_vouched",
    "sealed",
    "another_log",
]

MAX_NOTES_PER_REQUEST = 1000

MOST_DOMAINS = 100

MOST_LATE = 24

UNCHANGED_TIMEOUT = 0
"""The `timeout_ms` of a note that does not change the timeout."""

REASON_LENGTH = 200

CONTACT_LENGTH = 200

LogFactKind = OpenEnum["open_transaction", "moved_by", "unreadable", "passed", "foreign_file"]

MOST_LOG_FACTS = 4

IDLE_OPTION = "--unreadable idle"

NULL_OPTION = "--null pass"

LEAST_TIME = MIN_INT64 + 1
LARGEST_TIME = MAX_INT64 - 1
"""The ends of int64 are before and after all time."""

Times = Annotated[
    Mapping[Name, Int64],
    Meta(max_length=MOST_DOMAINS, extra_json_schema={"propertyNames": {"pattern": NAME_SCHEMA}}),
]


class LogFact(Struct, frozen=True):
    """An observation in a segment of the log, for people. No decision depends on it.

    - `open_transaction`: records from `offset` on cannot be read yet, at the latest since `time`
      (Unix ms).
    - `moved_by`: the record at `offset` has a `time` ahead of the observer's clock. `by` is its
      key, if the key is text.
    - `unreadable`: the last `count` records from `offset` on were passed over, since `time`. They
      cannot be read, or are ahead of the observer's clock. `by` ends the wait in all segments. It
      is `--null pass` if the time of each of them is null.
    - `passed`: such records do not hold back the time, since `time`, because of the option `by`.
    - `foreign_file`: a file log has the name `by`, first seen at `time`, which may have rows.
    """

    kind: LogFactKind
    segment: SegmentNumber
    offset: Annotated[
        Offset,
        Meta(description="the offset of the record, or the first offset that cannot be read yet"),
    ]
    time: Annotated[
        Int64, Meta(description="the record's time, or when the record was first seen, in Unix ms")
    ]
    by: Annotated[
        Annotated[Line, Meta(min_length=1, max_length=LABEL_LENGTH)] | None,
        Meta(description="the key of the record, or the observer's option"),
    ] = None
    count: Annotated[
        PositiveInt64 | None, Meta(description="the number of records that were passed over")
    ] = None


class Note(Struct, frozen=True, omit_defaults=True):
    """The claim of a writer: all my events with time < `time` are below `position` (PDP-33).

    Times are int64 of the application's own clock, by convention Unix ms. A note without a time
    shows that the writer is alive and how far it wrote.

    - `position`: segment → exclusive offset. A segment that is left out keeps its offset.
    - `sequence`: the number of the writer's request, from 1 on. It rises also with a repeated
      request, so that a delayed one is recognised. With `None`, requests are ordered by arrival.

    The other fields are described where they are defined.
    """

    writer: Name
    time: Int64 | None = None
    position: Position = field(default_factory=dict)
    domain: Name | None = None
    max_time: Annotated[
        Int64 | None,
        Meta(description="the largest event time written so far, in the note's domain"),
    ] = None
    state: State = "live"
    sequence: PositiveInt64 | None = None
    domains: Annotated[
        Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MOST_DOMAINS)] | None,
        Meta(
            description="the domains that the writer vouches for from now on; absent: unchanged, "
            "initially all"
        ),
    ] = None
    timeout_ms: Annotated[
        PositiveInt64 | None,
        Meta(description="the writer's own timeout; null: the stream's timeout; absent: unchanged"),
    ] = UNCHANGED_TIMEOUT
    late_rows: Annotated[
        LateRows | Annotated[Sequence[LateRows], Meta(max_length=MOST_LATE)] | None,
        Meta(
            description="rows written below the lower, one report or several, such as one for "
            "each hour"
        ),
    ] = None
    session: Annotated[
        Id | None,
        Meta(
            description="the process that notes; absent: not distinguished from other processes "
            "of the writer"
        ),
    ] = None
    takes_over: Annotated[
        bool, Meta(description="notes of the other sessions of the writer are `fenced` from now on")
    ] = False
    label: Annotated[
        Line,
        Meta(
            max_length=LABEL_LENGTH,
            description="a name of the session for people, such as its host and process",
        ),
    ] = ""
    max_times: Annotated[
        Times | None,
        Meta(description="the same by domain; for the note's own domain the larger value counts"),
    ] = None
    took_over: Annotated[
        Annotated[tuple[Id, ...], Meta(max_length=FORMER_KEPT)] | None,
        Meta(
            description="the sessions that lost the name to this one; it takes the name over from "
            "them again"
        ),
    ] = None
    no_time_reason: Annotated[
        Annotated[Line, Meta(min_length=1, max_length=REASON_LENGTH)] | None,
        Meta(
            description="why the writer is alive but does not note, for people; a note without it "
            "clears it"
        ),
    ] = None
    log: Annotated[
        Id | None,
        Meta(
            description="the id of the position's log, such as a Kafka topic's id; another log is "
            "refused"
        ),
    ] = None
    observes: Annotated[
        bool, Meta(description="the writer observes the log, and notes for other writers")
    ] = False
    because: Annotated[
        Sequence[LogFact],
        Meta(
            max_length=MOST_LOG_FACTS,
            description="facts of the log that hold back or advanced an observer's time, for "
            "people",
        ),
    ] = ()
    from_time: Annotated[
        Int64 | None, Meta(description="in a first note: no row of the writer has an earlier time")
    ] = None
    contact: Annotated[
        Annotated[Line, Meta(max_length=CONTACT_LENGTH)] | None,
        Meta(
            description="whom to ask about the writer, for people; absent or null: unchanged; "
            "empty: cleared"
        ),
    ] = None


def validate_contact(contact: str) -> str:
    """Return the contact, or raise `Rejected` unless it is one line of at most 200 characters.

    >>> validate_contact("#flights, +49 30 1234")
    '#flights, +49 30 1234'
    """
    if len(contact) > CONTACT_LENGTH or not _is_line(contact):
        raise Rejected(
            f"contact must be one line of at most {CONTACT_LENGTH} characters, without control, "
            f"invisible and bidirectional characters, not {contact[:40]!r}"
        )
    return contact


_is_line = re.compile(LINE_SCHEMA).fullmatch


def list_reports(late: LateRows | Sequence[LateRows] | None) -> Sequence[LateRows]:
    if late is None:
        return ()
    return (late,) if isinstance(late, LateRows) else late


class Accepted(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="status",
    tag="accepted",
    rename={"exclusion": "excluded"},
):
    """The note is durable. `lower` is the last mark's lower: rows below it are late.

    - `excluded` is present while the watermark advances without the writer.
    - `timeout_ms` is present if the writer joined by this note. It is the writer's own timeout, or
      else the stream's.
    - `position` and `times` are present if the writer joined and had noted a position before. They
      are its last known position, and its last time by domain.
    - `took_over` are the sessions that lost the name to this session.
    """

    lower: Int64 | None
    exclusion: Exclusion | None = None
    position: Position | None = None
    times: Mapping[str, Int64] | None = None
    timeout_ms: Int64 | None = None
    took_over: tuple[str, ...] | None = None

    @property
    def says_only_lower(self) -> bool:
        """Whether no other field is set."""
        return self.exclusion is None and self.timeout_ms is None and self.took_over is None


class Refused(Struct, frozen=True):
    """The note is behind an earlier note of the writer, or exceeds a bound.

    `last` depends on the status:

    =======================================  ===================================================
    ``invalid_time``                         the time that the note is behind
    ``invalid_position``                     the offsets that the note is behind
    ``superseded``                           the largest accepted sequence of the writer
    ``fenced``                               the session that has the name
    ``too_far_ahead``                        the largest time allowed now
    ``implausible_position``                 the largest offsets allowed now
    ``implausible_time``                     `None`: the time seems to be in seconds
    ``too_many_segments``                    the limit of the writer or of the stream
    ``too_many_writers``                     the limit
    ``not_vouched``                          the first ten domains that the writer vouches for
    ``another_log``                          both logs
    ``unknown_domain``, ``unknown_writer``   `None`
    ``sealed``                               `None`: the stream accepts no more notes
    =======================================  ===================================================

    `beyond` is the time that is ``too_far_ahead`` or ``implausible_time``.
    """

    status: RefusedStatus
    last: int | Mapping[int, int] | tuple[str, ...] | Session | OtherLog | None = None
    beyond: Beyond | None = None

    @property
    def detail(self) -> str | None:
        """How far the time is ahead, its likely unit, which logs differ, or `None`."""
        if isinstance(self.last, OtherLog):
            return self.last.sentence
        if self.beyond is not None and self.status == "implausible_time":
            return refuse_seconds(self.beyond.time)
        if self.beyond is None or not isinstance(self.last, int):
            return None
        return self.beyond.sentence(self.last)

    def error(self, writer: str, *, first: bool = False) -> InvalidNote | AnotherLog:
        """Return the error to raise in the writer's client.

        If `first`, no earlier note of the process was accepted.
        """
        if isinstance(self.last, OtherLog):
            return AnotherLog(f"the stream of writer {writer!r}", self.last)
        return InvalidNote(writer, self.status, self.last, self.beyond, first=first)
