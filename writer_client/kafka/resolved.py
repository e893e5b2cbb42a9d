"""How far a changefeed has come in a topic, by what it says itself in each partition."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Message

from noted_time.kafka.records import log
from noted_time.observing import RESOLVED_FIELD, Seen, read_resolved_time
from writer_client.kafka.fields import RecordTimes


class KafkaResolved(RecordTimes):
    """The last resolved record of a changefeed of CockroachDB in each partition of its topic.

    What comes later in a partition was changed at the time of that record or after it, except rows
    that the changefeed repeats. Each record is read once, for two seconds a look: from `known`, the
    position that the controller has of the writer when it is first called, or from the first one.
    `partitions` are all, unless they are given. Records that are no rows and whose time cannot be
    read are passed over: `unusable` counts them, and a warning names one at most once a minute. So
    are those whose time is more than `ahead_ms` ahead of `clock` (Unix ms), unless that is `None`:
    one of them would move its partition's time there for good.
    """

    _without: frozenset[int] = frozenset()

    def __call__(self) -> Seen:
        """Return the offset of the last resolved record of each partition, and their times.

        A partition without one is at the offset where reading began, and has no time. No bound of
        the times of rows is known. Raises as `SameTopic.poll_ends` and as `TopicReader.read`.
        """
        look = self._read()
        if not self._reader.find_behind(look.ends):
            self._warn_of_missing(look.ends)
        added = self._topic.poll_ends(
            high=False
        ).ends  # they may speak of one that has come meanwhile
        for partition in added:
            self._reached.setdefault(partition, 0)
        return Seen(dict(self._reached), dict(self._times), because=self._build_facts(look))

    @staticmethod
    def _time_of(message: Message) -> int | None:
        value = message.value()
        if value is None or RESOLVED_FIELD not in value:
            return None
        return read_resolved_time(message.key(), value)

    def _warn_of_missing(self, ends: Mapping[int, int]) -> None:
        without = frozenset(each for each, end in ends.items() if end and each not in self._times)
        if without - self._without:
            log.warning(
                "Kafka topic %r has no resolved record in partitions %s: time holds until it has "
                "(CREATE CHANGEFEED … WITH resolved, format=json)",
                *(self._topic.name, sorted(without)),
            )
        self._without |= without
