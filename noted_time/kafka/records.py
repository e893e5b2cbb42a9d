"""Reads the records of a Kafka topic, for observers."""

from __future__ import annotations

import logging
import time as clocks
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from noted_time.client.closing import Closing
from noted_time.kafka.connecting import create_client
from noted_time.kafka.topic import Topic
from noted_time.values import Recreated, Rejected, Unreachable

log = logging.getLogger("noted_time.observer")

READ_LIMIT_S = 2.0
"""How long a poll may read, while the observer sends no notes."""

REPORT_INTERVAL_S = 60.0
SHOWN_CHARACTERS = 200

POLL_WAIT_S = 0.05
BATCH_RECORDS = 5000
PARTITION_END = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's own codes begin so
OFFSET_GONE = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001 - likewise

CONSUMER_SETTINGS: Mapping[str, Any] = {
    "group.id": "noted-time-observer",  # librdkafka requires an id; no group is joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": 16 << 10,  # bounds the memory, as the next does
    "fetch.max.bytes": 8 << 20,
}


class TopicRecord(NamedTuple):
    """A record, with its partition and offset."""

    partition: int
    offset: int
    message: Message


class TopicReader(Closing):
    """Reads the records of a topic as read_committed consumers do, without a group.

    `position` has the offset after the last read record of each partition.
    """

    def __init__(self, topic: Topic) -> None:
        self.position: dict[int, int] = {}
        self._topic = topic
        self._consumer = create_client(Consumer, {**topic.connection, **CONSUMER_SETTINGS})
        self._deleted: set[int] = set()
        self.unusable = 0
        self._report_at = 0.0

    def begin(self, offsets: Mapping[int, int]) -> None:
        name = self._topic.name
        begins = dict[int, int]()
        if not all(offsets.values()):  # librdkafka takes a second to find a beginning
            with suppress(Rejected, Unreachable):
                begins.update(self._topic.begins())
        partitions = [
            TopicPartition(name, partition, offset or begins.get(partition, OFFSET_BEGINNING))
            for partition, offset in offsets.items()
        ]
        self._consumer.incremental_assign(partitions)
        self.position.update(offsets)

    def restart(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions only, from these offsets, and fetched records again."""
        self._consumer.unassign()
        self.position.clear()
        self.begin(offsets)

    def pass_over(
        self, partition: int, offset: int, reason: Exception, key: str | None = None
    ) -> None:
        """Count a record without a readable time, and warn of it unless a warning is recent."""
        self.unusable += 1
        now = clocks.monotonic()
        if now >= self._report_at:
            self._report_at = now + REPORT_INTERVAL_S
            name = self._topic.name
            reason_text = str(reason)[:SHOWN_CHARACTERS]
            log.warning(
                "Kafka topic %r, partition %d, offset %d%s: the record has no readable time "
                "(%s); %d such records were skipped so far",
                name,
                partition,
                offset,
                f", key {key}" if key else "",
                reason_text,
                self.unusable,
            )

    def find_behind(self, ends: Mapping[int, int]) -> list[int]:
        return [partition for partition, end in ends.items() if self.position[partition] < end]

    def read(
        self, ends: Mapping[int, int], *, for_s: float = READ_LIMIT_S
    ) -> Iterator[TopicRecord]:
        """Yield the records up to these ends, for at most `for_s` seconds."""
        position = self.position
        deadline = clocks.monotonic() + for_s
        for ended_partition, end in ends.items():
            if end < position[ended_partition]:
                raise self._build_recreated(ended_partition, position[ended_partition])
        while self.find_behind(ends) and clocks.monotonic() < deadline:
            for deleted_partition in [*self._deleted]:
                self._skip_deleted(deleted_partition)
            failure: KafkaError | None = None
            for message in self._consumer.consume(BATCH_RECORDS, POLL_WAIT_S):
                partition = message.partition()
                offset = message.offset()
                error = message.error()
                if error is not None or partition is None or offset is None:
                    failure = self._skip_non_record(error, partition, offset) or failure
                elif partition in position:
                    yield TopicRecord(partition, offset, message)
                    position[partition] = offset + 1
            if failure is not None:
                name = self._topic.name
                raise Unreachable(f"Kafka topic {name!r} cannot be read: {failure.str()}")

    def close(self) -> None:
        self._consumer.close()

    def _skip_non_record(
        self, error: KafkaError | None, partition: int | None, offset: int | None
    ) -> KafkaError | None:
        """Skip an end of a partition and deleted records, and return any other error."""
        if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return None  # librdkafka asks for an unneeded group
        if error is None or partition is None or offset is None:
            return error
        if error.code() not in (PARTITION_END, OFFSET_GONE):
            return error
        # only markers and aborted records precede the end
        if partition in self.position and error.code() == PARTITION_END:
            self.position[partition] = max(self.position[partition], offset)
        elif partition in self.position:
            self._deleted.add(partition)
        return None

    def _skip_deleted(self, partition: int) -> None:
        name = self._topic.name
        position = self.position[partition]
        begin = self._topic.begins().get(partition)
        if begin is None:
            raise self._topic.build_leaderless([partition])
        if begin <= position:
            raise self._build_recreated(partition, position)
        log.warning(
            "Kafka topic %r, partition %d: the records from %d to %d were deleted before they were "
            "read; their times are not known",
            name,
            partition,
            position,
            begin,
        )
        self._consumer.incremental_unassign([TopicPartition(name, partition)])
        self._deleted.discard(partition)
        self.begin({partition: begin})

    def _build_recreated(self, partition: int, offset: int) -> Recreated:
        fact = f"partition {partition} was read to {offset}, and ends before that"
        return self._topic.build_recreated(fact)
