"""Derives the time before which all transactions of PostgreSQL began that are not in a topic yet.

A heartbeat message has the start of the oldest transaction that was open when it was emitted. So
each transaction that began before that had ended, and its commit is before the message in the log.
Once the connector has committed an offset whose last commit is at or after the message, all changes
of these transactions are in the topic.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from noted_time.extending import Rejected, format_time, name_program
from noted_time_extensions.debezium.commit_times import (
    PATIENCE_MS,
    US_PER_MS,
    CommitTimes,
    SourcePart,
    describe_hold,
    list_envelopes,
)
from noted_time_extensions.debezium.heartbeat_query import MESSAGE_PREFIX
from noted_time_extensions.debezium.source_offsets import SourceOffset, read_json

NOT_POSTGRESQL = (
    "--by start is for PostgreSQL, and connector {connector!r} reads another database: leave out "
    "--by start, and read the commit times"
)
NO_HEARTBEAT = "connector {connector!r} has sent no heartbeat message for a minute"
NO_HEARTBEAT_REMEDY = (
    "{standstill}: see the log of its worker. The query of `{program} observe kafka debezium "
    "--print-query` fails without the role pg_read_all_stats, on a standby, and while a session "
    "has track_activities off. It sends nothing while there is a prepared transaction"
)
OLD_TRANSACTION = (
    "the oldest transaction in the database of connector {connector!r} began at {start}"
)
LATE_START = (
    "a transaction in the database of connector {connector!r} began at {start}, below {proven}, "
    "which its heartbeats had proven: rows of it may come below a noted time"
)


class Heartbeat(NamedTuple):
    """A heartbeat message: its place in PostgreSQL's log, and the oldest transaction.

    `pid` is the process of the oldest transaction, `None` without another transaction.
    """

    lsn: int
    start_us: int
    pid: int | None = None
    application: str = ""


def read_heartbeat(value: bytes | None) -> Heartbeat | None:
    """Return the heartbeat in a record of Debezium, `None` for another record.

    >>> content = base64.b64encode(b'{"start": 1500, "pid": 42, "application": "psql"}').decode()
    >>> message = f'"message": {{"prefix": "noted-time", "content": "{content}"}}'
    >>> read_heartbeat(f'{{"source": {{"lsn": 7}}, {message}}}'.encode())
    Heartbeat(lsn=7, start_us=1500, pid=42, application='psql')
    """
    for envelope in list_envelopes(value):
        match envelope:
            case {
                "source": {"lsn": int(lsn)},
                "message": {"prefix": str(prefix), "content": str(encoded)},
            } if prefix == MESSAGE_PREFIX:
                return _decode_heartbeat(lsn, encoded)
    return None


def _decode_heartbeat(lsn: int, encoded: str) -> Heartbeat | None:
    try:
        content = read_json(base64.b64decode(encoded, validate=True))
    except (binascii.Error, UnicodeDecodeError):
        return None
    match content:
        case {"start": int(start_us), "pid": int(pid), "application": application}:
            return Heartbeat(lsn, start_us, pid, str(application))
        case {"start": int(start_us)}:
            return Heartbeat(lsn, start_us)
    return None


@dataclass(slots=True)
class StartClock:
    """The starts that the heartbeats of one connector prove.

    >>> clock = StartClock(delay_us=0)
    >>> clock.take(Heartbeat(lsn=5, start_us=100), now=0)
    >>> clock.reach(4), clock.time_us, clock.reach(5), clock.time_us
    ([], None, [], 100)
    """

    delay_us: int
    time_us: int | None = None
    last: Heartbeat | None = None
    """The last heartbeat that was reached."""
    came_at: int | None = None
    """When the last heartbeat came, in Unix ms."""
    missing_reason: str | None = None
    """Why heartbeats cannot be read."""
    rose_at: int | None = None
    """When the heartbeat came that raised the time."""
    _waiting: list[tuple[Heartbeat, int]] = field(default_factory=list, init=False)

    def take(self, heartbeat: Heartbeat, now: int) -> None:
        """Take a heartbeat that came at `now` (Unix ms)."""
        self.came_at = now
        self.missing_reason = None
        self._waiting.append((heartbeat, now))

    def reach(self, commit_lsn: int) -> list[Heartbeat]:
        """Count the heartbeats up to a commit. Returns the ones that began too early."""
        late_heartbeats: list[Heartbeat] = []
        waiting: list[tuple[Heartbeat, int]] = []
        for heartbeat, came_at in self._waiting:
            if heartbeat.lsn > commit_lsn:
                waiting.append((heartbeat, came_at))
                continue
            self.last = heartbeat
            if self.time_us is None or heartbeat.start_us > self.time_us:
                self.time_us = heartbeat.start_us
                self.rose_at = came_at
            elif heartbeat.start_us + self.delay_us < self.time_us:
                late_heartbeats.append(heartbeat)
        self._waiting = waiting
        return late_heartbeats


class StartTimes(CommitTimes):
    """The time before which all transactions began whose changes may be missing in a topic.

    The caller also passes it the connectors' heartbeats.
    """

    def __init__(self, topic: str, connectors: Sequence[str], **options: Any) -> None:  # noqa: ANN401 - those of `CommitTimes`
        super().__init__(topic, connectors, **options)
        self._start_clocks: dict[str, StartClock] = {}

    def take_heartbeat(self, prefix: str, value: bytes | None, written_at: int) -> None:
        """Take a record of the heartbeats' topic of a prefix, written at a time in Unix ms."""
        heartbeat = read_heartbeat(value)
        if heartbeat is not None:
            self._find_clock(prefix).take(heartbeat, written_at)

    def miss_heartbeats(self, prefix: str, reason: str) -> None:
        """Tell why the heartbeats of a prefix cannot be read."""
        self._find_clock(prefix).missing_reason = reason

    def reach_offsets(self) -> None:
        """Count the heartbeats that the committed offsets have reached."""
        for part, clock in self._clocks.items():
            if clock.commit_lsn is None or describe_hold(part, clock) is not None:
                continue
            start_clock = self._find_clock(part.prefix)
            for heartbeat in start_clock.reach(clock.commit_lsn):
                self._report_late_start(part, heartbeat, start_clock.time_us or 0)

    def _find_clock(self, prefix: str) -> StartClock:
        return self._start_clocks.setdefault(prefix, StartClock(self._delay_ms * US_PER_MS))

    def _check_source(self, part: SourcePart, offset: SourceOffset) -> None:
        super()._check_source(part, offset)
        if not offset.is_postgresql:
            raise Rejected(NOT_POSTGRESQL.format(connector=part.connector))

    def _get_time_us(self, part: SourcePart) -> int:
        return self._find_clock(part.prefix).time_us or 0

    def _describe_wait(self, part: SourcePart) -> str | None:
        start_clock = self._find_clock(part.prefix)
        if start_clock.time_us is None:
            return (
                start_clock.missing_reason
                or f"the next heartbeat message of connector {part.connector!r} is awaited"
            )
        return None

    def _find_rise(self, part: SourcePart) -> int | None:
        start_clock = self._find_clock(part.prefix)
        if start_clock.rose_at is None:
            return self._clocks[part].begun_at
        return start_clock.rose_at

    def _describe_standstill(self, part: SourcePart) -> str:
        start_clock = self._find_clock(part.prefix)
        read_at = self._clocks[part].read_at or 0
        oldest = start_clock.last
        is_silent = start_clock.came_at is None or read_at - start_clock.came_at >= PATIENCE_MS
        if is_silent or oldest is None:
            return NO_HEARTBEAT.format(connector=part.connector)
        start = format_time(oldest.start_us // US_PER_MS)
        sentence = OLD_TRANSACTION.format(connector=part.connector, start=start)
        if oldest.pid is None:
            return sentence
        return f"{sentence}: pid {oldest.pid}, {oldest.application or 'without a name'}"

    def _name_remedy(self, standstill: str) -> str:
        if "no heartbeat" not in standstill:
            return standstill
        return NO_HEARTBEAT_REMEDY.format(standstill=standstill, program=name_program())

    def _report_late_start(self, part: SourcePart, heartbeat: Heartbeat, proven_us: int) -> None:
        self.steps_back += 1
        start = format_time(heartbeat.start_us // US_PER_MS)
        proven = format_time(proven_us // US_PER_MS)
        self._warnings.append(
            LATE_START.format(connector=part.connector, start=start, proven=proven)
        )
