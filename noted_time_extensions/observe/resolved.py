"""Observes a topic's time by the resolved records of a CockroachDB changefeed."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Message

from noted_time_extensions.observe.changefeed import RESOLVED_FIELD, read_resolved_time
from noted_time_extensions.observe.event_times import EventTime
from noted_time_extensions.observe.fields import RecordTimes, log
from writer_client import Seen


class KafkaResolved(RecordTimes):
    """Returns the last resolved record of a CockroachDB changefeed in each partition of its topic.

    Later records in a partition were changed at or after the time of that record, except rows that
    the changefeed repeats. Each record is read once. Reading begins at `known`, the writer's
    position at the controller, or at the first record.

    An unreadable record is skipped and counted (`unusable`), and so is one more than `ahead_ms`
    ahead of `clock`.
    """

    _named_partitions: frozenset[int] = frozenset()

    def __call__(self) -> Seen:
        """Return the offset and the time of the last resolved record of each partition.

        A partition without one has the offset where reading began, and no time.
        """
        look = self._read()
        if not self._reader.find_behind(look.ends):
            self._warn_of_missing(look.ends)
        ends = self._poll_ends(high=False).ends  # a partition may have been added
        for partition in ends:
            self._reached.setdefault(partition, 0)
        return Seen(dict(self._reached), dict(self._times), because=self._build_facts(look))

    @staticmethod
    def _time_of(message: Message) -> EventTime:
        value = message.value()
        if value is None or RESOLVED_FIELD not in value:
            return []
        return read_resolved_time(message.key(), value)

    def _warn_of_missing(self, ends: Mapping[int, int]) -> None:
        waiting_partitions = set[int]()
        for partition, end in ends.items():
            if end and partition not in self._times:
                waiting_partitions.add(partition)
        if waiting_partitions - self._named_partitions:
            log.warning(
                "Kafka topic %r has no resolved record in partitions %s: time waits until it has "
                "(CREATE CHANGEFEED … WITH resolved, format=json)",
                *(self._topic.name, sorted(waiting_partitions)),
            )
        self._named_partitions |= waiting_partitions
