"""Combines the clocks of all source partitions to the time of a topic, or to why it has none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from noted_time.extending import Rejected, format_time, join_names, name_program
from noted_time_extensions.debezium.source_clock import SourceClock, SteppedBack
from noted_time_extensions.debezium.source_offsets import (
    OffsetKey,
    SourceOffset,
    read_json,
    read_key,
    read_offset,
)

US_PER_MS = 1000
PATIENCE_MS = 60_000
"""How long a time may stay the same, while offsets come, before the reason is given."""

STOPPED_MS = 150_000
"""How old the last offset may be: by default, Connect commits one each minute."""

FOREIGN_TOPIC = (
    "Kafka topic {offsets!r} has no offsets of Kafka Connect, for example the key {key}: name the "
    "worker's offset.storage.topic by --offsets"
)
OTHER_CONNECTOR = (
    "connector {connector!r} is not one of Debezium, because its offsets have neither `server` nor "
    "`server_id`: {remedy}"
)
NO_COMMIT_TIME = (
    "the offsets of connector {connector!r} have no commit time, for example those for SQL Server, "
    "Oracle and Db2: {remedy}"
)
FIELD_COMMAND = (
    "use `{program} observe kafka field BOOTSTRAP {topic} --field source.ts_ms --delay 5m`, whose "
    "delay is a guess"
)
OTHER_PREFIX = (
    "connector {connector!r} does not write Kafka topic {topic!r}: its topics begin with "
    "{prefix!r}. Name the connector that writes it, or pass --routed if a transformation names it"
)
STANDSTILL_SENTENCE = "the commit time of connector {connector!r} has not risen for a minute"
HEARTBEAT_REMEDY = (
    "{standstill}. If the database has no commits, let the connector make some "
    "(PostgreSQL 14 or newer):\n"
    "  heartbeat.interval.ms=1000\n"
    "  heartbeat.action.query=SELECT pg_logical_emit_message(true, 'noted-time', '')"
)
GAP_REASON = (
    "the offset of connector {connector!r} was deleted and came again without a snapshot, so "
    "changes may be missing: if none are, start the observer once with --accept-gap"
)
STEPPED_BACK = (
    "the commit time of connector {connector!r} went back from {proven} to {time}, so changes that "
    "were committed in between may come below a noted time: see whether the clock of the database "
    "was set back, or the offset of the connector"
)


class ProvenTime(NamedTuple):
    """All changes that were committed before `time` (Unix ms) are in the topic.

    `stall` says why the time does not rise.
    """

    time: int
    stall: str | None = None


class NoTime(NamedTuple):
    """No time is proven, for this reason."""

    reason: str


class SourcePart(NamedTuple):
    """A source partition of a connector, as JSON, and the prefix of its topics."""

    connector: str
    partition: str
    prefix: str


class CommitTimes:
    """The commit time before which a topic has all changes of these connectors.

    The caller passes it all records of Connect's offsets topic, and reads the topic's ends after
    that. The delay bounds by how much commits are out of the order of their times.
    """

    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        topic: str,
        connectors: Sequence[str],
        *,
        offsets: str = "connect-offsets",
        delay_ms: int = 0,
        routed: bool = False,
        accepts_gaps: bool = False,
    ) -> None:
        self._topic = topic
        self._connectors = tuple(dict.fromkeys(connectors))
        self._offsets = offsets
        self._delay_ms = delay_ms
        self._is_routed = routed
        self._accepts_gaps = accepts_gaps
        self._clocks: dict[SourcePart, SourceClock] = {}
        self._other_connectors: set[str] = set()
        self._is_caught_up = False
        self._still_parts: set[SourcePart] = set()
        self._warnings: list[str] = []
        self.steps_back = 0

    def take(self, key: bytes | None, value: bytes | None, written_at: int) -> None:
        """Take a record of the offsets topic that was written at a time in Unix ms.

        Raises `Rejected` if the record shows that the time cannot be known.
        """
        offset_key = read_key(key)
        if offset_key is None:
            raise self._build_foreign(key)
        connector = offset_key.connector
        if connector not in self._connectors:
            self._other_connectors.add(connector)
            return
        part = self._find_part(offset_key)
        clock = self._clocks.setdefault(part, SourceClock(self._delay_ms * US_PER_MS))
        if value is None:
            clock.delete(written_at)
            return
        offset = read_offset(value)
        if offset is None:
            raise self._build_foreign(key)
        self._check_source(part, offset)
        stepped_back = clock.take(offset, written_at)
        if stepped_back is not None:
            self._report_step(part, stepped_back)

    def finish_first_read(self) -> None:
        """Tell that all offsets were read that there were at the start."""
        if self._is_caught_up:
            return
        self._is_caught_up = True
        if self._accepts_gaps:
            self._accept_gaps()
        missing_connectors = self.find_missing_connectors()
        if missing_connectors:
            self._warnings.append(self._describe_missing(missing_connectors))

    def judge(self, now: int) -> ProvenTime | NoTime:
        """Return the time that is proven at `now` (Unix ms), or why none is."""
        if not self._is_caught_up:
            return NoTime(f"Kafka topic {self._offsets!r} is being read")
        missing = self.find_missing_connectors()
        if missing:
            return NoTime(self._describe_missing(missing))
        for part, clock in self._clocks.items():
            hold = describe_hold(part, clock)
            if hold is not None:
                return NoTime(hold)
        stall = self._find_stop(now) or self._find_standstill()
        for part in self._clocks:
            wait = self._describe_wait(part)
            if wait is not None:
                return NoTime(stall or wait)
        part = min(self._clocks, key=self._get_time_us)
        time_us = self._get_time_us(part)
        if time_us > now * US_PER_MS:
            return NoTime(
                f"the time of connector {part.connector!r}, {format_time(time_us // US_PER_MS)}, "
                "is ahead of this machine's clock"
            )
        return ProvenTime(time_us // US_PER_MS - self._delay_ms, stall)

    def pop_warnings(self) -> list[str]:
        """Return the warnings since the last call, for people."""
        warnings = self._warnings
        self._warnings = []
        return warnings

    def list_prefixes(self) -> list[str]:
        """Return the prefixes of the connectors' topics."""
        return sorted({part.prefix for part in self._clocks})

    @property
    def is_complete(self) -> bool:
        """Whether an offset of each connector was read."""
        return self._is_caught_up and not self.find_missing_connectors()

    def _check_source(self, part: SourcePart, offset: SourceOffset) -> None:
        """Raise `Rejected` for a source whose times cannot be known."""
        if offset.commit is None and offset.snapshot is None:
            remedy = self._name_field_command()
            raise Rejected(NO_COMMIT_TIME.format(connector=part.connector, remedy=remedy))

    def _get_time_us(self, part: SourcePart) -> int:
        """Return the proven time of a part that need not wait."""
        return self._clocks[part].time_us or 0

    def _describe_wait(self, part: SourcePart) -> str | None:
        if self._clocks[part].time_us is None:
            return f"the next commit that connector {part.connector!r} reads is awaited"
        return None

    def _find_rise(self, part: SourcePart) -> int | None:
        """Return when the part's time last rose."""
        return self._clocks[part].rose_at

    def _describe_standstill(self, part: SourcePart) -> str:
        return STANDSTILL_SENTENCE.format(connector=part.connector)

    def _name_remedy(self, standstill: str) -> str:
        return HEARTBEAT_REMEDY.format(standstill=standstill)

    def _find_part(self, key: OffsetKey) -> SourcePart:
        connector = key.connector
        prefix = key.prefix
        if prefix is None:
            remedy = self._name_field_command()
            raise Rejected(OTHER_CONNECTOR.format(connector=connector, remedy=remedy))
        if not (self._is_routed or self._topic.startswith(f"{prefix}.")):
            raise Rejected(
                OTHER_PREFIX.format(connector=connector, topic=self._topic, prefix=f"{prefix}.")
            )
        return SourcePart(connector, json.dumps(key.partition, sort_keys=True), prefix)

    def _accept_gaps(self) -> None:
        for clock in self._clocks.values():
            clock.is_gap = False
        for part, clock in [*self._clocks.items()]:
            same_parts = [other for other in self._clocks if other.connector == part.connector]
            if clock.is_deleted and len(same_parts) > 1:
                del self._clocks[part]

    def _find_stop(self, now: int) -> str | None:
        for part, clock in self._clocks.items():
            if clock.read_at is not None and now - clock.read_at >= STOPPED_MS:
                last_read = format_time(clock.read_at)
                return (
                    f"connector {part.connector!r} has committed no offset since {last_read}: see "
                    "whether it runs"
                )
        return None

    def _find_standstill(self) -> str | None:
        """Return why the time of a part does not rise though offsets come, and warn of it once."""
        for part, clock in self._clocks.items():
            rose_at = self._find_rise(part)
            if clock.read_at is None or rose_at is None or clock.read_at - rose_at < PATIENCE_MS:
                self._still_parts.discard(part)
                continue
            sentence = self._describe_standstill(part)
            if part not in self._still_parts:
                self._still_parts.add(part)
                self._warnings.append(self._name_remedy(sentence))
            return sentence
        return None

    def _report_step(self, part: SourcePart, step: SteppedBack) -> None:
        self.steps_back += 1
        proven = format_time(step.proven_us // US_PER_MS)
        time = format_time(step.time_us // US_PER_MS)
        self._warnings.append(
            STEPPED_BACK.format(connector=part.connector, proven=proven, time=time)
        )

    def find_missing_connectors(self) -> list[str]:
        """Return the connectors without an offset."""
        present = {part.connector for part in self._clocks}
        return [name for name in self._connectors if name not in present]

    def _describe_missing(self, missing: Sequence[str]) -> str:
        names = join_names([repr(name) for name in missing])
        present = {part.connector for part in self._clocks}
        other_names = sorted(self._other_connectors | present)
        sentence = f"Kafka topic {self._offsets!r} has no offset of connector {names}"
        if not other_names:
            return f"{sentence}, and of no other: see whether it runs, or correct --offsets"
        return f"{sentence}, but of {join_names([repr(name) for name in other_names])}"

    def _build_foreign(self, key: bytes | None) -> Rejected:
        shown_key = repr(None if key is None else key.decode("utf-8", "replace")[:80])
        return Rejected(FOREIGN_TOPIC.format(offsets=self._offsets, key=shown_key))

    def _name_field_command(self) -> str:
        return FIELD_COMMAND.format(program=name_program(), topic=self._topic)


def describe_hold(part: SourcePart, clock: SourceClock) -> str | None:
    """Return why a source partition proves no time, independently of its commits."""
    connector = part.connector
    if clock.snapshot is not None:
        return f"connector {connector!r} takes a snapshot ({clock.snapshot})"
    if clock.is_deleted:
        return f"the offset of connector {connector!r} was deleted"
    if clock.is_gap:
        return GAP_REASON.format(connector=connector)
    return None


def find_source_name(value: bytes | None) -> str | None:
    """Return the topic prefix in a record of Debezium, `None` if the record has none.

    >>> find_source_name(b'{"payload": {"source": {"name": "sales"}}}')
    'sales'
    """
    for envelope in list_envelopes(value):
        match envelope:
            case {"source": {"name": str(name)}}:
                return name
    return None


def list_envelopes(value: bytes | None) -> Iterator[Mapping[str, object]]:
    """Yield the objects that may be the envelope of a change: the value, or its `payload`."""
    content = read_json(value)
    if isinstance(content, dict):
        yield content
        payload = content.get("payload")
        if isinstance(payload, dict):
            yield payload
