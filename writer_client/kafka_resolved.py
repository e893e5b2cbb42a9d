"""How far a changefeed has come in a topic, by what it says itself in each partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Message

from noted_time.kafka.reading import TopicReader, log
from noted_time.values import LARGEST_TIME, Rejected
from noted_time.wing import RESOLVED, resolved_time
from writer_client.kafka_ends import SameTopic
from writer_client.kafka_fields import AHEAD_MS
from writer_client.posting import unix_ms


class KafkaResolved:
    """The last resolved record of a changefeed of CockroachDB in each partition of its topic.

    What comes later in a partition was changed at the time of that record or after it, except rows
    that the changefeed repeats. Each record is read once, for two seconds a look: from `known`, the
    position that the controller has of the writer when it is first called, or from the first one.
    Given `among`, each call reads the partitions that it returns, from the offset that each is
    mapped to, and no others. Records that are no rows and whose time cannot be read are passed
    over: `unusable` counts them, and a warning names one at most once a minute. So are those whose
    time is more than `ahead_ms` ahead of `clock` (Unix ms), unless that is `None`: one of them
    would move its partition's time there for good.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        config: Mapping[str, Any],
        topic: str,
        *,
        known: Callable[[], Mapping[int, int]] = dict,
        among: Callable[[], Mapping[int, int]] | None = None,
        ahead_ms: int | None = AHEAD_MS,
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        """Raises as `SameTopic`."""
        self._topic = SameTopic(config, topic)
        self._reader = TopicReader(self._topic.topic)
        self._known, self._among = known, among
        self._ahead_ms, self._clock = ahead_ms, clock
        self._resolved: dict[int, int] = {}
        self._times: dict[int, int] = {}
        self._without: frozenset[int] = frozenset()

    @property
    def unusable(self) -> int:
        """How many records were passed over."""
        return self._reader.unusable

    def __call__(self) -> tuple[Mapping[int, int], Mapping[int, int | None], None]:
        """Return the offset of the last resolved record of each partition, and their times.

        A partition without one is at the offset where reading began, and has no time. No bound of
        the times of rows is known. Raises as a look of `SameTopic` and as `TopicReader.read`.
        """
        ends = self._topic.look().ends
        if self._among is None:
            known = {} if self._resolved else self._known()
        else:
            known = self._among()
            ends = {partition: end for partition, end in ends.items() if partition in known}
            for partition in self._reader.keep(known):
                del self._resolved[partition]
                self._times.pop(partition, None)
        for partition in ends.keys() - self._reader.position.keys():
            self._resolved[partition] = known.get(partition, 0)
            self._reader.begin(partition, self._resolved[partition])
        latest = LARGEST_TIME if self._ahead_ms is None else self._clock() + self._ahead_ms
        for partition, offset, message in self._reader.read(ends):
            value = message.value()
            if value is not None and RESOLVED in value:
                self._take(partition, offset, message, latest)
        if not self._reader.behind(ends):
            self._name_those_without(ends)
        if self._among is None:  # they may speak of a partition that has come meanwhile
            for partition in self._topic.look().ends:
                self._resolved.setdefault(partition, 0)
        return dict(self._resolved), dict(self._times), None

    def _take(self, partition: int, offset: int, message: Message, latest: int) -> None:
        try:
            time = resolved_time(message.key(), message.value(), latest=latest)
        except Rejected as error:
            self._reader.pass_over(partition, offset, error)
            return
        if time is not None:
            self._resolved[partition] = offset
            self._times[partition] = max(time, self._times.get(partition, time))

    def _name_those_without(self, ends: Mapping[int, int]) -> None:
        without = frozenset(each for each, end in ends.items() if end and each not in self._times)
        if without - self._without:
            log.warning(
                "Kafka topic %r has no resolved record in partitions %s: time holds until it has "
                "(CREATE CHANGEFEED … WITH resolved, format=json)",
                *(self._topic.name, sorted(without)),
            )
        self._without |= without
