"""Reads the committed offsets of a consumer group."""

from __future__ import annotations

import time as clocks
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from noted_time.client.waiting import NothingKnown
from noted_time.kafka.connecting import Cluster, create_client
from noted_time.kafka.records import CONSUMER_SETTINGS, OFFSET_GONE, PARTITION_END, POLL_WAIT_S
from noted_time.kafka.topic import TIMEOUT_S, Topic
from noted_time.progress import ReadOffsets, check_known, find_lookup_starts
from noted_time.values import Rejected, Unreachable

GROUP_LOAD_S = 5.0

LOOKUP_S = 5.0
"""How long to search for more read records."""

COORDINATOR_ERRORS = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)

DEAD_STATE = "Dead"
"""The state of a group without the consumer or Connect protocol."""

NO_OFFSET = (
    "group {group!r} has committed no offset: correct the name, or have it commit after it has "
    "written"
)
SHARE_GROUP = (
    "{group!r} is a share group, or one of Kafka Streams that has not committed yet. A share group "
    "has no committed offsets, because it acknowledges records one by one. All records below its "
    "start offsets are done: kafka-share-groups.sh --describe --group {group} shows them, and "
    "--offsets takes them"
)


class GroupOffsets:
    """The offsets that a group has committed of one topic. Raises the same as `Topic`."""

    def __init__(self, config: Mapping[str, Any], group: str, topic: str) -> None:
        self._topic = Topic(config, topic)
        self._group = group
        self._cluster = Cluster(self._topic.connection)

    def __call__(self, cut: Mapping[int, int] | None = None) -> ReadOffsets:
        """Return how far the group has read, exact only below the `cut`, if given.

        A partition is read up to the first record at or after its committed offset that a
        read_committed reader finds. For a compacted topic, only the committed offset counts. The
        remarks name records that count as read, though the group may not have read them.

        Raises `NothingKnown` without a commit, and `Rejected` for offsets that cannot belong to the
        topic or are below deleted records.
        """
        topic = self._topic
        # in this order: an offset is at or above an earlier begin, and at or below a later end
        begins = topic.begins()
        committed_offsets = self._fetch_committed()
        look = topic.look()
        topic.check_leaders(look.unknown.union(look.ends.keys() - begins.keys()))
        check_known(cut or {}, look.ends, f"Kafka topic {topic.name!r}, unlike the stream,")
        starts = find_lookup_starts(committed_offsets, begins, look.ends, cut)
        is_whole = not self._may_be_compacted()
        position = dict(committed_offsets)
        if starts and is_whole:
            position.update(self._find_read_records(starts))
        needed_offsets = look.ends if cut is None else cut
        partitions_without_offset = sorted(
            partition
            for partition in look.ends.keys() - committed_offsets.keys()
            if position.get(partition, 0) < needed_offsets.get(partition, 0)
        )
        deleted_partitions = sorted(
            partition for partition in committed_offsets if begins.get(partition)
        )
        remarks = [self._describe_beginning(deleted_partitions)]
        reader = f"group {self._group!r}"
        if partitions_without_offset:
            remarks.append(
                f"{reader} has no offset of partitions {partitions_without_offset}, which count as "
                "0: begin at earliest, or commit a position for each partition that is assigned"
            )
        if not is_whole:
            remarks.append(
                f"Kafka topic {topic.name!r} is compacted, or its cleanup.policy cannot be read: "
                f"removed records count as read, and records after a committed offset do not"
            )
        return ReadOffsets(position, reader, look.id, remarks=tuple(remarks))

    def _describe_beginning(self, deleted_partitions: list[int]) -> str:
        remark = (
            f"records before group {self._group!r} began count as read, because Kafka does not "
            "keep where it began"
        )
        if deleted_partitions:
            remark += f", and so do the deleted records of partitions {deleted_partitions}"
        return remark

    def _find_read_records(self, starts: Mapping[int, int]) -> dict[int, int]:
        """Return the first records at or after `starts`, except those deleted meanwhile."""
        first_records = self._find_first_records(starts)
        if not first_records:
            return {}
        begins_now = self._topic.begins()
        read_records: dict[int, int] = {}
        for partition, offset in first_records.items():
            if begins_now.get(partition, offset) <= starts[partition]:
                read_records[partition] = offset
        return read_records

    def _may_be_compacted(self) -> bool:
        with suppress(Rejected):
            return "compact" in self._topic.settings()["cleanup.policy"]
        return True

    def _fetch_committed(self) -> dict[int, int]:
        group = self._group
        name = self._topic.name
        deadline = clocks.monotonic() + GROUP_LOAD_S
        while (partitions := self._list_offsets(deadline)) is None:
            clocks.sleep(POLL_WAIT_S)
        for partition in partitions:
            if partition.error is not None:
                raise self._build_error(partition.error)
        committed_partitions = [partition for partition in partitions if partition.offset >= 0]
        if not committed_partitions:
            reason = SHARE_GROUP if self._is_share_group() else NO_OFFSET
            raise NothingKnown(reason.format(group=group))
        offsets = {
            partition.partition: partition.offset
            for partition in committed_partitions
            if partition.topic == name
        }
        if not offsets:
            other_topics = ", ".join(
                sorted({partition.topic for partition in committed_partitions})[:10]
            )
            raise NothingKnown(
                f"group {group!r} has committed offsets of {other_topics}, and none of {name}: "
                f"name one of these topics in group:{group}@BROKERS/TOPIC"
            )
        return offsets

    def _list_offsets(self, deadline: float) -> list[TopicPartition] | None:
        request = [ConsumerGroupTopicPartitions(self._group)]
        try:
            self._check_coordinator()
            futures = self._cluster.admin.list_consumer_group_offsets(
                request, request_timeout=TIMEOUT_S
            )
            answer = self._cluster.wait_for(futures[self._group], TIMEOUT_S + 1.0)
        except KafkaException as error:
            code = error.args[0].code()
            if code in COORDINATOR_ERRORS and clocks.monotonic() < deadline:
                return None
            if code == KafkaError.GROUP_ID_NOT_FOUND:
                return []
            raise self._build_error(error.args[0]) from None
        return answer.topic_partitions or []

    def _check_coordinator(self) -> None:
        """Raise `KafkaException` while no coordinator answers.

        A request for offsets would then end the process, by an assertion of librdkafka.
        """
        futures = self._cluster.admin.describe_consumer_groups(
            [self._group], request_timeout=TIMEOUT_S
        )
        try:
            self._cluster.wait_for(futures[self._group], TIMEOUT_S + 1.0)
        except KafkaException as error:
            if error.args[0].code() in COORDINATOR_ERRORS:
                raise

    def _is_share_group(self) -> bool:
        admin = self._cluster.admin
        group = self._group
        try:
            # deprecated, but only this call lists all kinds
            with warnings.catch_warnings(action="ignore"):
                groups = admin.list_groups(group, timeout=TIMEOUT_S)
            if not any(listed_group.state == DEAD_STATE for listed_group in groups):
                return False
            consumer_groups = self._cluster.wait_for(admin.list_consumer_groups(), TIMEOUT_S)
        except KafkaException:
            return False
        return not consumer_groups.errors and group not in {
            consumer_group.group_id for consumer_group in consumer_groups.valid
        }

    def _find_first_records(self, starts: Mapping[int, int]) -> dict[int, int]:
        name = self._topic.name
        deadline = clocks.monotonic() + LOOKUP_S
        consumer = create_client(Consumer, {**self._topic.connection, **CONSUMER_SETTINGS})
        first_records: dict[int, int] = {}
        waiting_partitions = dict(starts)
        try:
            consumer.incremental_assign(
                [TopicPartition(name, partition, offset) for partition, offset in starts.items()]
            )
            while waiting_partitions and clocks.monotonic() < deadline:
                for message in consumer.consume(len(waiting_partitions), POLL_WAIT_S):
                    partition = message.partition()
                    error = message.error()
                    if partition not in waiting_partitions:
                        continue
                    if error is not None and error.code() not in (PARTITION_END, OFFSET_GONE):
                        raise Unreachable(f"Kafka topic {name!r} cannot be read: {error.str()}")
                    start = waiting_partitions.pop(partition)
                    consumer.incremental_unassign([TopicPartition(name, partition)])
                    if error is None or error.code() == PARTITION_END:
                        first_records[partition] = max(start, message.offset() or 0)
        finally:
            consumer.close()
        return first_records

    def _build_error(self, error: KafkaError) -> Rejected | Unreachable:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return Rejected(
                f"this client may not see the offsets of group {self._group!r}: grant it the "
                "operation DESCRIBE on the group"
            )
        return Unreachable(f"the offsets of group {self._group!r}: {error.str()}")


def committed_position(kafka: str | Mapping[str, Any], group: str, topic: str) -> ReadOffsets:
    """Return how far a group has read a topic. Raises as `GroupOffsets`.

    `kafka` is ``host:port`` of the brokers, or the settings of librdkafka.
    """
    config = {"bootstrap.servers": kafka} if isinstance(kafka, str) else kafka
    return GroupOffsets(config, group, topic)()
