"""Advances a reader as the messages of a Kafka consumer are processed."""

from __future__ import annotations

import logging
import time as clocks
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from noted_time.client.closing import Closing
from noted_time.kafka.connecting import create_client
from noted_time.kafka.topic import Topic
from noted_time.values import AnotherLog, NotedTimeError, Rejected, TimeWindow, Unreachable
from reader_client.client import ReaderClient
from reader_client.reader import find_logs, is_in_group

log = logging.getLogger("noted_time.reader")
kafka_log = logging.getLogger("noted_time.reader.kafka")

TIMEOUT_S = 10.0
CHECK_INTERVAL_S = 10.0

EARLIEST_RESETS = ("earliest", "smallest", "beginning")
LATEST_RESETS = ("latest", "largest", "end")


class KafkaNotedConsumer(Closing):
    """A Kafka consumer that advances a reader as its messages are processed.

    The next `poll` or `consume`, or `processed`, marks the returned messages as processed. The
    reader's position then advances, and the offsets are stored for the consumer's next commit.
    Messages that are not marked when the process ends or partitions are revoked are delivered
    again.

    >>> config = {"bootstrap.servers": "kafka:9092", "group.id": "daily"}
    >>> options = {"controller": url, "group": "daily", "reader": "one"}  # doctest: +SKIP
    >>> reader = ReaderClient("flights", **options)  # doctest: +SKIP
    >>> with KafkaNotedConsumer(config, reader) as flights:  # doctest: +SKIP
    ...     for message in flights:
    ...         handle(message)
    ...         print(flights.get_time_window().lower)

    A partition begins at its committed offset, or else where Kafka begins to read
    (`auto.offset.reset`). If this offset is unknown, it begins at 0 until its first message or end
    is read.

    In a reader group, give each consumer its own reader name. Use the consumer in one thread.
    """

    SETTINGS: ClassVar[Mapping[str, Any]] = {
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
    }
    """Offsets are stored after processing; a partition's end may be after unreadable records."""

    def __init__(
        self, consumer: Consumer | Mapping[str, Any], reader: ReaderClient, topic: str | None = None
    ) -> None:
        """Subscribe to a topic, by default to the topic with the name of the reader's stream.

        `consumer` is a configuration, or a consumer that was created with `SETTINGS`. `close`
        closes the consumer and the reader.

        For a configuration, raises `Rejected` for an unknown topic or settings that librdkafka
        refuses, and `Unreachable` if no broker answers within ten seconds.
        """
        self._topic = topic or reader.stream
        self._kafka: Topic | None = None
        self._reset = ""
        if isinstance(consumer, Mapping):
            consumer = self._create_consumer(consumer)
        self.consumer = consumer
        self.reader = reader
        self._begins: dict[int, int | None] = {}
        self._returned_offsets: dict[int, int] = {}
        self._failure: KafkaError | None = None
        self._closing = False
        consumer.subscribe(
            [self._topic], on_assign=self._begin, on_revoke=self._end, on_lost=self._end
        )

    def poll(self, timeout: float = 1.0) -> Message | None:
        """Return the next message within `timeout` seconds, if any.

        Raises `KafkaException`, and as `consume`.
        """
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, num_messages: int = 500, timeout: float = 1.0) -> list[Message]:
        """Return up to `num_messages` messages, fewer if no more arrive within `timeout` seconds.

        Calls `processed` first. Raises `KafkaException`. If `consumer` was a configuration, raises
        `Rejected` if the topic was deleted, `Recreated` if it was recreated, and `AnotherLog` if
        the stream belongs to another topic.
        """
        self.processed()
        self._check_same()
        if self._failure is None:
            messages = list(self._pass_on(self.consumer.consume(num_messages, timeout)))
            if messages or self._failure is None:
                return messages
        failure = self._failure
        self._failure = None
        raise KafkaException(failure)

    def __iter__(self) -> Iterator[Message]:
        """Yield messages without end."""
        while True:
            message = self.poll()
            if message is not None:
                yield message

    def processed(self) -> None:
        """Mark all returned messages as processed.

        Raises `Rejected` if the consumer stores offsets itself.
        """
        offsets = self._returned_offsets
        self._returned_offsets = {}
        if offsets and self._store_offsets(offsets):
            self.reader.advance(offsets)

    def get_time_window(self, domain: str | None = None) -> TimeWindow:
        """Return the reader's time window; see `ReaderClient.get_time_window`."""
        return self.reader.get_time_window(domain)

    def close(self, timeout: float = TIMEOUT_S) -> None:
        """Leave the consumer group, and take the reader offline at its position.

        Call `processed` before, or the last messages are delivered again. Without an answer within
        `timeout` seconds, the reader times out.
        """
        self._closing = True
        self._returned_offsets = {}
        with closing(self.reader), closing(self.consumer):
            if not is_in_group(self.reader):
                return
            try:
                self.reader.offline(timeout=timeout)
            except NotedTimeError as error:
                log.warning("the reader of topic %r did not go offline: %s", self._topic, error)

    def _create_consumer(self, config: Mapping[str, Any]) -> Consumer:
        self._kafka = Topic(config, self._topic)
        self._kafka.look_again()
        self._look_at = clocks.monotonic() + CHECK_INTERVAL_S
        settings = {**config.get("default.topic.config", {}), **config}
        self._reset = str(settings.get("auto.offset.reset", "latest")).lower()
        return create_client(Consumer, {"logger": kafka_log, **config, **self.SETTINGS})

    def _check_same(self) -> None:
        if self._kafka is None:
            return
        AnotherLog.check(self.reader.stream, find_logs(self.reader), self._kafka.id)
        if clocks.monotonic() < self._look_at:
            return
        with suppress(Unreachable):
            self._kafka.look_again()
        self._look_at = clocks.monotonic() + CHECK_INTERVAL_S

    def _pass_on(self, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - so named
                self._failure = self._failure or error
                continue
            partition = message.partition()
            offset = message.offset()
            if partition is None or offset is None or partition not in self._begins:
                continue
            self._check_begin(partition, offset)
            if error is not None:  # the end of the partition
                self._returned_offsets[partition] = offset
            else:
                self._returned_offsets[partition] = offset + 1
                yield message

    def _check_begin(self, partition: int, offset: int) -> None:
        begin = self._begins[partition]
        self._begins[partition] = None
        if begin not in (None, offset):
            self.reader.advance({partition: offset})

    def _store_offsets(self, offsets: Mapping[int, int]) -> bool:
        places = [
            TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()
        ]
        try:
            self.consumer.store_offsets(offsets=places)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError._STATE:  # noqa: SLF001 - so named
                log.warning(
                    "topic %r: partitions %s were taken from this consumer before their messages "
                    "were processed (max.poll.interval.ms): Kafka delivers them again",
                    self._topic,
                    sorted(offsets),
                )
                return False
            if code != KafkaError._INVALID_ARG:  # noqa: SLF001 - so named
                raise
            raise Rejected(
                "the consumer stores the offsets of messages that are not processed yet: create it "
                "with enable.auto.offset.store=False"
            ) from error
        return True

    def _begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._closing:
            return
        places = consumer.committed(partitions, timeout=TIMEOUT_S)
        deadline = clocks.monotonic() + TIMEOUT_S
        begins = {
            place.partition: self._find_begin(place, deadline - clocks.monotonic())
            for place in places
        }
        self._begins.update(begins)
        self.reader.advance(begins)

    def _find_begin(self, place: TopicPartition, timeout_s: float) -> int:
        partition = place.partition
        offset = place.offset
        # None on a timeout, contrary to its type
        ends: tuple[int, int] | None = None
        with suppress(KafkaException):
            ends = self.consumer.get_watermark_offsets(place, max(0.1, timeout_s))
        if ends is None:
            return 0
        first, end = ends
        if first <= offset <= end:
            return offset
        if offset > end:
            log.warning(
                "topic %r, partition %d: ends at %d, and this group has committed %d: the topic "
                "was recreated, or lost records",
                *(self._topic, partition, end, offset),
            )
        elif offset >= 0:
            log.warning(
                "topic %r, partition %d: the records from %d to %d were deleted before this group "
                "had processed them",
                *(self._topic, partition, offset, first),
            )
        if self._reset in EARLIEST_RESETS:
            return first
        if self._reset in LATEST_RESETS:
            return end
        return 0

    def _end(self, _: Consumer, places: list[TopicPartition]) -> None:
        partitions = [place.partition for place in places]
        for partition in partitions:
            self._begins.pop(partition, None)
            self._returned_offsets.pop(partition, None)
        self.reader.release(partitions)
