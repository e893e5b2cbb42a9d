"""Reads the metadata of a Kafka topic: its id, partitions, begins and ends."""

from __future__ import annotations

import time as clocks
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from noted_time.kafka.connecting import Cluster
from noted_time.observing import Stamp
from noted_time.values import (
    NotedTimeError,
    Recreated,
    Rejected,
    Unreachable,
    log_id,
    suggest_names,
)

TIMEOUT_S = 10.0

LATEST_OFFSET = OffsetSpec.latest()  # type: ignore[no-untyped-call]
EARLIEST_OFFSET = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LARGEST_TIMESTAMP = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]

LEADERLESS_CODES = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - librdkafka's own codes begin so
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
    }
)
"""The errors of a leader that cannot report its end yet, so that it does not go back (KIP-207)."""

FORBIDDEN_CODES = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The topic id of brokers before Kafka 2.8."""


@dataclass(frozen=True, slots=True)
class TopicLook:
    """The state of a topic at one poll.

    `id` changes if the topic is recreated, and is `None` if the broker has no topic ids. `ends` are
    exclusive, and lack the `unknown` partitions, whose leaders did not answer.

    `high` watermarks are read before the ends, the `newest` records after them. So no record below
    the end has a larger timestamp than the newest. In an open transaction, a read_committed
    reader's end is below the high watermark (KIP-98).
    """

    id: str | None
    ends: Mapping[int, int]
    unknown: frozenset[int] = frozenset()
    newest: Mapping[int, Stamp] = field(default_factory=dict)
    high: Mapping[int, int] = field(default_factory=dict, compare=False)

    @property
    def partitions(self) -> frozenset[int]:
        return self.unknown.union(self.ends)


class Topic:
    """A topic of the cluster that `config` connects to. Other settings are ignored.

    Calls raise `Rejected` if the topic does not exist or may not be described, and `Unreachable`.
    """

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self.name = name
        self.id: str | None = None
        """The id at the last `look_again`, or `None`."""
        self._cluster = Cluster(config)

    @property
    def connection(self) -> Mapping[str, Any]:
        return self._cluster.settings

    def set_sasl_credentials(self, username: str, password: str) -> None:
        self._cluster.set_sasl_credentials(username, password)

    def look(
        self,
        *,
        committed: bool = False,
        high: bool = False,
        newest: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> TopicLook:
        """Return the topic's id and ends, without reading records.

        With `committed`, the ends are below the oldest open transaction. With `high`, the look also
        has the high watermarks, and with `newest` the largest timestamps. Timestamps include
        uncommitted and aborted records.
        """
        topic_id, partitions = self._describe_or_reconnect(timeout_s)
        high_stamps = {}
        if high:
            high_stamps = self._list_offsets(partitions, LATEST_OFFSET, timeout_s)
        latest_stamps = self._list_offsets(
            high_stamps if high else partitions, LATEST_OFFSET, timeout_s, committed=committed
        )
        ends = _take_offsets(latest_stamps)
        stamps = {}
        if newest:
            stamps = self._list_offsets(ends, LARGEST_TIMESTAMP, timeout_s)
            ends = {partition: end for partition, end in ends.items() if partition in stamps}
        written_stamps = {
            partition: stamp for partition, stamp in stamps.items() if stamp.time >= 0
        }
        leaderless_partitions = frozenset(partitions).difference(ends)
        return TopicLook(
            topic_id, ends, leaderless_partitions, written_stamps, _take_offsets(high_stamps)
        )

    def look_again(
        self, *, committed: bool = False, high: bool = False, newest: bool = False
    ) -> TopicLook:
        """Look, and raise `Recreated` if the topic's id has changed since the last call."""
        look = self.look(committed=committed, high=high, newest=newest)
        if self.id is not None and look.id is not None and self.id != look.id:
            raise self.build_recreated(f"its id is {look.id}, not {self.id}", is_certain=True)
        self.id = look.id or self.id
        return look

    def build_recreated(self, fact: str, *, is_certain: bool = False) -> Recreated:
        return Recreated(f"Kafka topic {self.name!r}", fact, is_certain=is_certain)

    def check_leaders(self, leaderless: Collection[int]) -> None:
        if leaderless:
            raise self.build_leaderless(leaderless)

    def build_leaderless(self, partitions: Collection[int]) -> Unreachable:
        numbers = sorted(partitions)
        return Unreachable(f"Kafka topic {self.name!r} has no leader for partitions {numbers}")

    def create(self, settings: Mapping[str, str]) -> None:
        new_topic = NewTopic(self.name, 1, config=dict(settings))
        try:
            self._cluster.admin.create_topics([new_topic], request_timeout=TIMEOUT_S)[
                self.name
            ].result()
        except KafkaException as error:
            remedy = (
                f"grant DESCRIBE and CREATE, or create it with one partition and {dict(settings)}"
            )
            fault = f"cannot be created: {error.args[0].str()}; {remedy}"
            raise Unreachable(f"Kafka topic {self.name!r} {fault}") from None

    def begins(self) -> Mapping[int, int]:
        _, partitions = self._describe_or_reconnect()
        return _take_offsets(self._list_offsets(partitions, EARLIEST_OFFSET))

    def offsets_at(self, time_ms: int) -> Mapping[int, int]:
        """Return the first offset with a timestamp >= `time_ms` in each partition, or its end."""
        ends = self.look().ends
        stamps = self._list_offsets(ends, OffsetSpec.for_timestamp(time_ms))
        return {
            **ends,
            **_take_offsets(
                {partition: stamp for partition, stamp in stamps.items() if stamp.offset >= 0}
            ),
        }

    def largest_times(self) -> Mapping[int, int]:
        _, partitions = self._describe_or_reconnect()
        stamps = self._list_offsets(partitions, LARGEST_TIMESTAMP)
        return {partition: stamp.time for partition, stamp in stamps.items() if stamp.time >= 0}

    def operations(self) -> frozenset[str]:
        description = self._fetch_description(TIMEOUT_S, include_authorized_operations=True)
        return frozenset(operation.name for operation in description.authorized_operations or ())

    def count_replicas(self) -> int:
        """Return the replicas of the partition that has most."""
        return max(
            len(partition.replicas) for partition in self._fetch_description(TIMEOUT_S).partitions
        )

    def settings(self, *, timeout_s: float = TIMEOUT_S) -> Mapping[str, str]:
        key = ConfigResource(ResourceType.TOPIC, self.name)
        future = self._cluster.admin.describe_configs([key], request_timeout=timeout_s)[key]
        try:
            settings = self._cluster.wait_for(future, timeout_s + 1.0)
        except KafkaException as error:
            if error.args[0].code() in FORBIDDEN_CODES:
                raise Rejected(
                    f"this client may not read the settings of Kafka topic {self.name!r}: "
                    "grant it the operation DESCRIBE_CONFIGS"
                ) from None
            raise self._build_error(error.args[0]) from None
        return {setting.name: setting.value for setting in settings.values()}

    def _describe_or_reconnect(self, timeout_s: float = TIMEOUT_S) -> tuple[str | None, list[int]]:
        """Describe the topic, and reconnect if its broker stopped, or calls fail for minutes."""
        try:
            return self._describe(timeout_s / 2)
        except Unreachable:
            self._cluster.connect()
            return self._describe(timeout_s / 2)

    def _describe(self, timeout_s: float) -> tuple[str | None, list[int]]:
        description = self._fetch_description(timeout_s)
        topic_id = str(description.topic_id)
        partitions = [partition.id for partition in description.partitions]
        return None if topic_id == NO_TOPIC_ID else log_id(topic_id), partitions

    def _fetch_description(self, timeout_s: float, **options: bool) -> TopicDescription:
        topics = TopicCollection([self.name])
        futures = self._cluster.admin.describe_topics(topics, request_timeout=timeout_s, **options)
        try:
            topic: TopicDescription = self._cluster.wait_for(futures[self.name], timeout_s + 1.0)
        except KafkaException as error:
            raise self._build_error(error.args[0]) from None
        return topic

    def _list_offsets(
        self,
        partitions: Iterable[int],
        spec: OffsetSpec,
        timeout_s: float = TIMEOUT_S,
        *,
        committed: bool = False,
    ) -> dict[int, Stamp]:
        if committed:
            level = IsolationLevel.READ_COMMITTED
        else:
            level = IsolationLevel.READ_UNCOMMITTED
        specs = {TopicPartition(self.name, partition): spec for partition in partitions}
        if not specs:
            return {}
        deadline = clocks.monotonic() + timeout_s
        futures = self._cluster.admin.list_offsets(
            specs, isolation_level=level, request_timeout=timeout_s
        )
        stamps: dict[int, Stamp] = {}
        for topic_partition, future in futures.items():
            try:
                result = future.result(max(0.0, deadline - clocks.monotonic()))
                if result.offset != OFFSET_INVALID:
                    stamps[topic_partition.partition] = Stamp(result.timestamp, result.offset)
            except KafkaException as error:
                if error.args[0].code() not in LEADERLESS_CODES:
                    raise self._build_error(error.args[0]) from None
            except TimeoutError:
                continue
        return stamps

    def _find_similar_names(self) -> list[str]:
        try:
            topics = self._cluster.admin.list_topics(timeout=TIMEOUT_S).topics
        except KafkaException:
            return []
        return get_close_matches(self.name, topics, n=3, cutoff=0.75)

    def _build_error(self, error: KafkaError) -> NotedTimeError:
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            remedy = suggest_names(self._find_similar_names()) or "create it, or correct the name"
            place = f"at {self._cluster.servers}"
            return Rejected(f"there is no Kafka topic {self.name!r} {place}: {remedy}")
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return Rejected(
                f"this client may not describe Kafka topic {self.name!r}: grant it the operation "
                "DESCRIBE"
            )
        if error.code() == KafkaError._TIMED_OUT:  # noqa: SLF001 - librdkafka's own codes begin so
            return self._cluster.build_unreachable()
        return Unreachable(f"Kafka at {self._cluster.servers}, topic {self.name!r}: {error.str()}")


def _take_offsets(stamps: Mapping[int, Stamp]) -> dict[int, int]:
    return {partition: stamp.offset for partition, stamp in stamps.items()}
