"""A group of processes among which Kafka divides the partitions of a topic; none reads a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from noted_time.kafka.connecting import client_of, connection
from noted_time.kafka.topic import TIMEOUT_S
from noted_time.values import Rejected, Unreachable

SESSION_MS = 10_000
"""How long a process may be silent before its partitions are assigned to others, by default."""

SETTINGS: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "partition.assignment.strategy": "cooperative-sticky",
    "heartbeat.interval.ms": 1000,
    "topic.metadata.refresh.interval.ms": 2000,
}
"""A partition stays with its process if it can; one that is new or free is assigned in seconds."""

FORBIDDEN = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)


class PartitionGroup:
    """This process's part of a consumer group of one topic.

    `config` may be that of any client of librdkafka: what concerns the connection is used, and
    `session.timeout.ms`. `gone` is called with partitions that another process may get as soon as
    it returns; `poll` calls it, and `close`. Raises `Rejected` for what librdkafka refuses.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        group: str,
        gone: Callable[[Sequence[int]], object],
    ) -> None:
        self.assigned: set[int] = set()
        self.session_ms = int(config.get("session.timeout.ms", SESSION_MS))
        self._topic, self._group, self._gone = topic, group, gone
        own = {"group.id": group, "session.timeout.ms": self.session_ms}
        self._consumer = client_of(Consumer, {**connection(config), **SETTINGS, **own})
        self._consumer.subscribe(
            [topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke
        )

    def poll(self, timeout_s: float) -> None:
        """Learn for so long what is assigned; raises `Rejected` if the group may not be joined."""
        message = self._consumer.poll(timeout_s)
        error = None if message is None else message.error()
        if error is not None and error.code() in FORBIDDEN:
            raise Rejected(
                f"this client may not share Kafka topic {self._topic!r}: grant it READ on consumer "
                f"group {self._group!r}, and DESCRIBE on the topic"
            )

    def partitions(self) -> Sequence[int]:
        """Return all partitions of the topic; raises `Unreachable` if Kafka does not answer."""
        try:
            topic = self._consumer.list_topics(self._topic, timeout=TIMEOUT_S).topics[self._topic]
        except KafkaException as error:
            raise Unreachable(f"Kafka does not answer: {error.args[0].str()}") from error
        if topic.error is not None:
            raise Unreachable(f"Kafka topic {self._topic!r}: {topic.error.str()}")
        return sorted(topic.partitions)

    def close(self) -> None:
        """Leave the group, so that others get the partitions at once."""
        self._consumer.close()

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Take partitions without fetching their records."""
        at_end = [TopicPartition(each.topic, each.partition, OFFSET_END) for each in partitions]
        consumer.incremental_assign(at_end)
        consumer.pause(partitions)
        self.assigned.update(each.partition for each in partitions)

    def _revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [each.partition for each in partitions]
        self.assigned.difference_update(numbers)
        self._gone(numbers)
