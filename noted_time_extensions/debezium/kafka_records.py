"""Reads the topics of Kafka that an observer of Debezium needs besides the observed one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from confluent_kafka import Message

from noted_time.extending import Rejected, Topic, TopicReader, Unreachable
from noted_time_extensions.debezium.commit_times import CommitTimes, find_source_name
from noted_time_extensions.debezium.start_times import StartTimes

MOST_CHECKED_RECORDS = 1000
MOST_FORMER_HEARTBEATS = 100
"""How many messages of a partition are read that were written before the start."""

NO_RIGHT = "this client may not read Kafka topic {topic!r}: grant it the operation READ"
OTHER_SOURCE = (
    "Kafka topic {topic!r} has records of {name!r}, and the named connectors have the prefixes "
    "{prefixes}: name the connector that writes them, too, by --connector"
)


class RecordsOfTopic:
    """Reads each record of a topic once."""

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        """Raises `Rejected` if the topic does not exist or may not be read."""
        self.name = name
        self._topic = Topic(config, name)
        self._reader = TopicReader(self._topic)
        self.is_at_end = False
        try:
            operations = self._topic.operations()
        except Unreachable:
            return
        if operations and "READ" not in operations:
            raise Rejected(NO_RIGHT.format(topic=name))

    def read(self, *, max_earlier: int | None = None) -> Iterator[Message]:
        """Yield the new records, and of each partition the `max_earlier` ones, or all."""
        look = self._topic.look_again(committed=True)
        self._topic.check_leaders(look.unknown)
        first_offsets: dict[int, int] = {}
        for partition in look.ends.keys() - self._reader.position:
            end = look.ends[partition]
            first_offsets[partition] = 0 if max_earlier is None else max(0, end - max_earlier)
        if first_offsets:
            self._reader.begin(first_offsets)
        for _, _, message in self._reader.read(look.ends):
            yield message
        self.is_at_end = not self._reader.find_behind(look.ends)

    def close(self) -> None:
        self._reader.close()


class ConnectOffsets:
    """Reads the offsets that a worker of Kafka Connect commits."""

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self._records = RecordsOfTopic(config, name)

    def read_into(self, times: CommitTimes) -> None:
        """Pass all new offsets to `times`."""
        for message in self._records.read():
            _, written_at = message.timestamp()
            times.take(message.key(), message.value(), written_at)
        if self._records.is_at_end:
            times.finish_first_read()


class Heartbeats:
    """Reads the messages that the heartbeat query makes connectors write."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._records: dict[str, RecordsOfTopic] = {}

    def read_into(self, times: StartTimes) -> None:
        """Pass the new messages of all connectors to `times`, at first the last ones."""
        for prefix in times.list_prefixes():
            try:
                records = self._find_records(prefix)
            except Rejected as refusal:  # the first message creates the topic
                times.miss_heartbeats(prefix, str(refusal))
                continue
            for message in records.read(max_earlier=MOST_FORMER_HEARTBEATS):
                _, written_at = message.timestamp()
                times.take_heartbeat(prefix, message.value(), written_at)

    def _find_records(self, prefix: str) -> RecordsOfTopic:
        if prefix not in self._records:
            self._records[prefix] = RecordsOfTopic(self._config, f"{prefix}.message")
        return self._records[prefix]


class SourceNames:
    """Checks that the first records of a topic are of the named connectors."""

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self._records: RecordsOfTopic | None = RecordsOfTopic(config, name)
        self._left = MOST_CHECKED_RECORDS

    def check(self, prefixes: Collection[str]) -> None:
        """Check the next of the first records. Raises `Rejected` for one of another connector."""
        records = self._records
        if records is None:
            return
        for message in records.read():
            name = find_source_name(message.value())
            if name is not None and name not in prefixes:
                named = ", ".join([repr(prefix) for prefix in prefixes])
                raise Rejected(OTHER_SOURCE.format(topic=records.name, name=name, prefixes=named))
            self._left -= 1
            if self._left == 0:
                records.close()
                self._records = None
                return


class HighWatermarks:
    """Reads the high watermarks of the observed topic."""

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self._topic = Topic(config, name)

    def read(self) -> Mapping[int, int]:
        """Return them. Raises `Unreachable` without an answer for all partitions."""
        look = self._topic.look()
        self._topic.check_leaders(look.unknown)
        return look.ends
