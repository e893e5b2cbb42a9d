"""The records of a Kafka topic, each read once: for observers that have to look into them."""

from __future__ import annotations

import logging
import time as clocks
from collections.abc import Iterator, Mapping
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from noted_time.kafka import Topic
from noted_time.values import Rejected, Unreachable

log = logging.getLogger("noted_time.observer")

TIMEOUT_S = 10.0
LOOK_S = 2.0
"""How long a look may read: meanwhile its observer notes nothing."""

SLICE_S = 0.05
BATCH = 5000
END = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's own codes begin so
GONE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)  # noqa: SLF001 - likewise

COMMITTED: Mapping[str, Any] = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "group.id": "noted-time-observer",  # librdkafka asks for one; no group is joined
    "queued.max.messages.kbytes": 16 << 10,
    "fetch.max.bytes": 8 << 20,
}
"""What a consumer needs to read so; the last two bound its memory."""


class Reading:
    """Reads the records of a topic as read_committed consumers see them, outside of any group.

    `position` is how far each partition was read, to an exclusive offset. `close` it in the end.
    """

    def __init__(self, topic: Topic) -> None:
        self.position: dict[int, int] = {}
        self._topic = topic
        self._consumer = Consumer({**topic.connection, **COMMITTED})

    def begin(self, offsets: Mapping[int, int]) -> None:
        """Begin to read these partitions there, except those that are being read."""
        new = {each: at for each, at in offsets.items() if each not in self.position}
        if new:
            self._consumer.incremental_assign(self._at(new))
            self.position.update(new)

    def read(self, ends: Mapping[int, int], *, for_s: float = LOOK_S) -> Iterator[Message]:
        """Read on until each partition has been read to its end or beyond, or for so long.

        What was deleted before it was read is named in the log. Raises `Unreachable` if nothing
        comes for ten seconds, and `Rejected` if the right to read is missing; the next call
        continues.
        """
        position, begun = self.position, clocks.monotonic()
        until = begun + TIMEOUT_S
        while any(position[partition] < end for partition, end in ends.items()):
            if clocks.monotonic() > begun + for_s:
                return
            found = self._consumer.consume(BATCH, SLICE_S)
            for message in found:
                partition, offset, error = message.partition(), message.offset(), message.error()
                if error is not None:
                    self._not_read(partition, offset, error)
                elif partition is not None and offset is not None:
                    position[partition] = offset + 1
                    yield message
            if found:
                until = clocks.monotonic() + TIMEOUT_S
            elif clocks.monotonic() > until:
                raise Unreachable(f"Kafka sends no records of topic {self._topic.name!r}")

    def close(self) -> None:
        """Release the connection."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at(self, offsets: Mapping[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic.name, each, at) for each, at in offsets.items()]

    def _not_read(self, partition: int | None, offset: int | None, error: KafkaError) -> None:
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise Rejected(
                f"this client may not read Kafka topic {self._topic.name!r}: grant it the "
                "operation READ"
            )
        if partition is None or partition not in self.position:
            return  # of the connection, which librdkafka restores
        read = self.position[partition]
        if error.code() == END and offset is not None:
            self.position[partition] = max(read, offset)  # aborted records and markers lie below
        elif error.code() in GONE:
            begin = self._topic.begins().get(partition, read)
            if begin > read:
                log.warning(
                    "Kafka topic %r, partition %d: the records from offset %d to %d were deleted "
                    "before they were read",
                    *(self._topic.name, partition, read, begin - 1),
                )
                self.position[partition] = begin
            self._consumer.incremental_unassign(self._at({partition: read}))
            self._consumer.incremental_assign(self._at({partition: max(begin, read)}))
