"""The times in the records of a Kafka topic, each of which is read once."""

from __future__ import annotations

import importlib
import logging
import sys
import time as clocks
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, Literal, NoReturn

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from noted_time.kafka.topic import FATAL_ONLY
from noted_time.values import LARGEST_TIME, LEAST_TIME, Recreated, Rejected, Unreachable, unix_ms_of
from writer_client.kafka_ends import SameTopic

log = logging.getLogger("noted_time.observer")

TimeOf = Callable[[Message], int | datetime | None]
Start = Literal["earliest", "latest"]

LOOK_S = 2.0
"""How long a call reads at most: meanwhile nothing is noted."""

WAIT_S = 0.05
BATCH = 5000
REPORT_S = 60.0

SETTINGS: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": 16 << 10,
    "fetch.max.bytes": 8 << 20,
}
"""What the consumer needs; the last two bound its memory."""


class KafkaFields:
    """How far a topic was read, and how far the times in its records have come; for an observer.

    `field` is that of a JSON object: ``"departure"``, or ``"flight.departure"`` for one within
    another. Its values are integers (Unix ms) or ISO 8601 with a zone. Or it is a function of the
    `Message`, or ``"module:function"`` naming one, that returns an integer, an aware `datetime`, or
    `None` for a record without a time. Records whose time cannot be read, also because the function
    raises, are passed over: `unusable` counts them, and a warning names one at most once a minute.

    It begins at `known`, the position that the controller has of the writer when it is first
    called; if that has none, at the topic's `start`: its ends or its first records. Partitions that
    are added later are read from their beginning.

    Given `among`, each call reads the partitions that it returns and no others, each from the
    offset that it is mapped to; if that is 0, from `start`.

    Raises `Rejected` for a function that cannot be imported, and as `SameTopic`.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        config: Mapping[str, Any],
        topic: str,
        field: str | TimeOf,
        *,
        known: Callable[[], Mapping[int, int]] = dict,
        start: Start = "latest",
        among: Callable[[], Mapping[int, int]] | None = None,
    ) -> None:
        self._time_of = time_in(field) if isinstance(field, str) else _checked(field)
        self._topic = SameTopic(config, topic)
        self._known, self._start, self._among = known, start, among
        own = {"group.id": "noted-time-observer", "log_level": FATAL_ONLY}
        self._consumer = Consumer({**own, **config, **SETTINGS})
        self._at: dict[int, int] = {}
        self._newest: dict[int, int] = {}
        self._stopped = set[int]()
        self.unusable = 0
        self._reported, self._report_at = 0, 0.0

    def __call__(self) -> tuple[Mapping[int, int], Mapping[int, int | None]]:
        """Return how far each partition was read, and the newest time of each with new records.

        It reads to the present ends, or for two seconds: a partition that has more is not idle.
        Raises as a look of `SameTopic`, and `Unreachable` if Kafka refuses to be read; what was
        read until then is returned by the next call.
        """
        ends = self._topic.look().ends
        if self._among is None:
            self._assign(ends)
        else:
            ends = self._assign_among(self._among(), ends)
        until = clocks.monotonic() + LOOK_S
        while self._behind(ends) and clocks.monotonic() < until:
            for partition in [*self._stopped]:
                self._skip_deleted(partition)
            self._take(self._consumer.consume(BATCH, WAIT_S))
        found: dict[int, int | None] = {**dict.fromkeys(self._behind(ends)), **self._newest}
        self._newest = {}
        return dict(self._at), found

    def _behind(self, ends: Mapping[int, int]) -> list[int]:
        return [partition for partition, end in ends.items() if self._at[partition] < end]

    def _assign(self, ends: Mapping[int, int]) -> None:
        """Read the partitions that are new from where they begin for this observer."""
        known = {} if self._at else self._known()
        is_first = not (self._at or known)
        for partition, end in ends.items():
            if partition not in self._at:
                begin = end if is_first and self._start == "latest" else known.get(partition, 0)
                self._read_from(partition, begin)
        for partition, at in self._at.items():
            if ends.get(partition, 0) < at:
                self._ends_before(partition, at)

    def _assign_among(self, among: Mapping[int, int], ends: Mapping[int, int]) -> Mapping[int, int]:
        """Read these partitions from what was noted, and no others; returns their ends."""
        for partition in self._at.keys() - among.keys():
            self._consumer.incremental_unassign([TopicPartition(self._topic.name, partition)])
            del self._at[partition]
            self._newest.pop(partition, None)
            self._stopped.discard(partition)
        own = {partition: ends.get(partition, 0) for partition in among}
        for partition in own.keys() - self._at.keys():
            begin = own[partition] if self._start == "latest" else 0
            self._read_from(partition, among[partition] or begin)
        self._assign(own)
        return own

    def _read_from(self, partition: int, begin: int) -> None:
        self._at[partition] = begin
        at = TopicPartition(self._topic.name, partition, begin or OFFSET_BEGINNING)
        self._consumer.incremental_assign([at])

    def _take(self, messages: Iterable[Message]) -> None:
        time_of, newest, at = self._time_of, self._newest, self._at
        failed: KafkaError | None = None
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None or partition is None or offset is None:
                failed = self._passed(error, partition, offset) or failed
                continue
            try:
                time = time_of(message)
            except Exception as unreadable:  # noqa: BLE001 - whatever a function of the user's raises
                self._unusable(partition, offset, unreadable)
            else:
                if time > newest.get(partition, LEAST_TIME - 1):
                    newest[partition] = time
            at[partition] = offset + 1
        if failed is not None:
            raise Unreachable(f"Kafka topic {self._topic.name!r} cannot be read: {failed.str()}")

    def _passed(
        self, error: KafkaError | None, partition: int | None, offset: int | None
    ) -> KafkaError | None:
        """Pass what is no record; returns an error that is more than that."""
        if error is None or partition is None or offset is None:
            return error
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own codes begin so
            self._at[partition] = max(self._at[partition], offset)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            self._stopped.add(partition)
        else:
            return error
        return None

    def _skip_deleted(self, partition: int) -> None:
        """Continue at the first record that is left."""
        name, at = self._topic.name, self._at[partition]
        begin = self._topic.topic.begins().get(partition)
        if begin is None:
            raise Unreachable(f"partition {partition} of Kafka topic {name!r} has no leader")
        if begin <= at:
            self._ends_before(partition, at)
        log.warning(
            "Kafka topic %r, partition %d: the records from %d to %d were deleted before they were "
            "read; their times are not known",
            name,
            partition,
            at,
            begin,
        )
        self._consumer.incremental_unassign([TopicPartition(name, partition)])
        self._read_from(partition, begin)
        self._stopped.discard(partition)

    def _ends_before(self, partition: int, at: int) -> NoReturn:
        fact = f"partition {partition} was read to {at}, and ends before that"
        raise Recreated(f"Kafka topic {self._topic.name!r}", fact)

    def _unusable(self, partition: int, offset: int, reason: Exception) -> None:
        """Count a record, and name it now and then."""
        self.unusable += 1
        now = clocks.monotonic()
        if now < self._report_at:
            return
        log.warning(
            "Kafka topic %r, partition %d, offset %d: the record has no time that can be read (%s);"
            " %d such records so far are passed over",
            self._topic.name,
            partition,
            offset,
            reason,
            self.unusable,
        )
        self._report_at = now + REPORT_S


def time_in(field: str) -> Callable[[Message], int]:
    """Return what finds the time in a record: a field of JSON, or the function of a module.

    Raises `Rejected` for a function that cannot be imported.
    """
    module, colon, name = field.partition(":")
    if not colon:
        return _of_json(field)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return _checked(attrgetter(name)(importlib.import_module(module)))
    except (ImportError, AttributeError, ValueError) as error:
        raise Rejected(f"the function {field!r} cannot be imported: {error}") from error


def timestamp(message: Message) -> int | None:
    """Return the timestamp of a record, which Kafka gives to each unless it is very old."""
    kind, time = message.timestamp()
    return time if kind else None


def _of_json(field: str) -> Callable[[Message], int]:
    kind: Any = (
        Annotated[int, msgspec.Meta(ge=LEAST_TIME, le=LARGEST_TIME)]
        | Annotated[datetime, msgspec.Meta(tz=True)]
    )
    names = field.split(".")
    for name in reversed(names):
        kind = msgspec.defstruct("Object", [("it", kind)], rename={"it": name}, gc=False)
    decode = msgspec.json.Decoder(kind).decode
    inside = attrgetter(".".join("it" for _ in names))

    def time_of(message: Message) -> int:
        time = inside(decode(message.value() or b""))
        return time if type(time) is int else unix_ms_of(time)

    return time_of


def _checked(function: TimeOf) -> Callable[[Message], int]:
    """Return a function that raises for what is no time."""

    def time_of(message: Message) -> int:
        given = function(message)
        if given is None:
            raise Rejected("the function found none")
        time = unix_ms_of(given)
        if not LEAST_TIME <= time <= LARGEST_TIME:
            raise Rejected(f"{time} is outside int64")
        return time

    return time_of
