"""Where a Kafka topic ends, for its producers and observers, and whether it is still the same."""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from noted_time.client.polling import PATIENCE_S
from noted_time.kafka import Topic, TopicLook
from noted_time.kafka.records import TopicReader, log
from noted_time.observing import GrowingEnds, NewestTimes, OpenTransactions, Seen, Stamp
from noted_time.values import (
    LARGEST_TIME,
    LogFact,
    NotObservable,
    Unreachable,
    find_missing_offsets,
    format_time,
)
from writer_client.sending.answers import FoundPosition
from writer_client.sending.clock import unix_ms

PAUSE_S = 0.2

CLOCK_AHEAD_MS = 60_000
"""A record whose timestamp is further ahead of the clock is named."""

CHECKED_PARTITIONS = 3
"""In how many partitions the largest timestamp is looked for in the record."""

MOST_CHECKS = 3
"""How many looks do so, until one could read them all in time."""


class TopicEnds:
    """The ends of all partitions of a topic, which is looked at with the first call."""

    def __init__(self, config: Mapping[str, Any], topic: str, *, domain: str | None = None) -> None:
        """Take the configuration of any client of librdkafka; `domain` is the events'."""
        self.topic = Topic(config, topic)
        self._domain = domain

    def look_up(self, known: Mapping[int, int]) -> FoundPosition:
        """Return the ends, also of what was not committed, and the largest timestamp below them.

        `known` is the writer's position at the controller. Raises as `check_same`.
        """
        look = self.check_same(known)
        times = self.topic.largest_times()
        new = [min(times[n], LARGEST_TIME) for n in times if look.ends.get(n, 0) > known.get(n, 0)]
        return FoundPosition(look.ends, {self._domain: max(new)} if new else {})

    def check_same(self, known: Mapping[int, int]) -> TopicLook:
        """Return what the topic is now; raises `Recreated` if it is not the one that was noted.

        Its id is another one then, or a partition is not there, or ends before what is `known`, and
        does so for ten seconds.
        """
        until = clocks.monotonic() + PATIENCE_S
        while True:
            look = self.topic.look_again()
            self.topic.check_leaders(look.unknown)
            behind = {each.segment: each.offset for each in find_missing_offsets(look.ends, known)}
            if not behind:
                return look
            if clocks.monotonic() >= until:
                raise self.topic.build_recreated(
                    f"it ends at {behind}, and {dict(known)} was noted"
                )
            clocks.sleep(PAUSE_S)


class SameTopic(Topic):
    """A topic that is seen as read_committed readers see it, as long as it is the same.

    `config` is that of any client of librdkafka; with `partitions`, the others are left out. Raises
    `Rejected` at once if there is no such topic, or no right to describe it; if Kafka does not
    answer, the first look asks again.
    """

    def __init__(
        self, config: Mapping[str, Any], topic: str, partitions: Collection[int] | None = None
    ) -> None:
        super().__init__(config, topic)
        self._partitions = partitions
        self._ends = GrowingEnds(log=f"Kafka topic {topic!r}")
        with suppress(Unreachable):
            self.look_again()

    def poll_ends(self, *, high: bool = True, newest: bool = False) -> TopicLook:
        """Return id and ends of the topic; with `high` and `newest` what `TopicLook` has of them.

        An open transaction holds the end of its partition. Raises `Unreachable` if Kafka does not
        answer for each partition, and `NotObservable` for partitions that do not exist. Raises
        `Recreated` if the id is not the one of the first look, or an end went back.
        """
        look = self.look_again(committed=True, high=high, newest=newest)
        if self._partitions is not None:
            none = sorted(set(self._partitions) - look.partitions)
            if none:
                known = f"its partitions are {sorted(look.partitions)}"
                raise NotObservable(f"Kafka topic {self.name!r} has no partitions {none}: {known}")
            look = look.of(self._partitions)
        self.check_leaders(look.unknown)
        self._ends.take(look.ends)  # before anything of it is used: some is reported only once
        return look


class TopicPoller:
    """What looks at a topic for an observer, and finds its open transactions."""

    def __init__(self, topic: SameTopic, clock: Callable[[], int]) -> None:
        self._topic, self._clock = topic, clock
        self._open = OpenTransactions()

    @property
    def log_id(self) -> str | None:
        """The topic's id, `None` before the first look, and if it has none."""
        return self._topic.id

    def _find_open_transactions(self, look: TopicLook) -> Sequence[LogFact]:
        return self._open.take(look.high, look.ends, now=self._clock())


class KafkaEnds(TopicPoller):
    """The ends of a topic: a call returns them as of now.

    They are those of read_committed readers, so an open transaction holds the end of its partition.
    Raises as `SameTopic`, and a call as `SameTopic.poll_ends`.
    """

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        super().__init__(SameTopic(config, topic), unix_ms)

    def __call__(self) -> Seen:
        """Return the ends."""
        look = self._topic.poll_ends()
        return Seen(look.ends, because=self._find_open_transactions(look))


class KafkaTimes(TopicPoller):
    """The ends of a topic, and how far the timestamps of its records have come; none is read.

    What a partition's largest timestamp tells counts once read_committed readers have its record,
    aborted or not. It counts as at most the present time of `clock`, in Unix ms, so that a record
    from the future does not take its partition's time there. While such a record is the largest,
    the partition's time is that of the clock whenever it has new records, whatever their
    timestamps are; a warning names it.

    Kafka gives the markers of transactions the broker's time, and counts them as well. So if
    records are written in transactions, they must not be older than the delay when they come in.
    The first call warns of it if it finds a marker: it looks for the newest record of three
    partitions, if it may, and reads nothing else.
    `partitions` are all, unless they are given.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        *,
        partitions: Collection[int] | None = None,
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        super().__init__(SameTopic(config, topic, partitions), clock)
        self._newest = NewestTimes()
        self._ahead: set[int] = set()
        self._checks_left = MOST_CHECKS

    def __call__(self) -> Seen:
        """Return the ends, and the newest time of each partition that is not idle.

        Raises as `SameTopic.poll_ends`.
        """
        look, now = self._topic.poll_ends(newest=True), self._clock()
        moved_by = self._find_times_ahead(look.newest, now)
        self._warn_of_markers(look)
        largest = max((stamp.time for stamp in look.newest.values()), default=None)
        active = self._open.find_active(look.high, look.ends)
        newest = self._newest.take(look.newest, look.ends, now=now, active=active)
        return Seen(look.ends, newest, largest, (*self._find_open_transactions(look), *moved_by))

    def _warn_of_markers(self, look: TopicLook) -> None:
        """Warn, once there is something to see, if a largest timestamp is that of no record.

        It is a marker then, or aborted. Only some are looked for, and without the right to read the
        topic none is.
        """
        visible = [(s.time, p, s.offset) for p, s in look.newest.items() if s.offset < look.ends[p]]
        if not self._checks_left or not visible:
            return
        self._checks_left -= 1
        asked = {
            partition: offset for _, partition, offset in sorted(visible)[-CHECKED_PARTITIONS:]
        }
        with suppress(Unreachable), TopicReader(self._topic) as reader:
            reader.begin(asked)
            read = reader.read({partition: offset + 1 for partition, offset in asked.items()})
            found = {partition for partition, offset, _ in read if offset == asked[partition]}
            passed = {p for p, offset in asked.items() if reader.position[p] > offset}
            if passed == asked.keys():
                self._checks_left = 0
            if passed - found:
                log.warning(
                    "Kafka topic %r uses transactions. Their markers carry the broker's time and "
                    "are counted, so records that arrive later than the delay are late. To read "
                    "the timestamps instead, use `observe kafka read-timestamp`",
                    self._topic.name,
                )

    def _find_times_ahead(self, newest: Mapping[int, Stamp], now: int) -> Sequence[LogFact]:
        ahead = {number for number, stamp in newest.items() if stamp.time > now + CLOCK_AHEAD_MS}
        for number in sorted(ahead - self._ahead):
            stamp = newest[number]
            log.warning(
                "Kafka topic %r, partition %d: the record at offset %d has the timestamp %s, which "
                "is ahead of this clock. Until it has passed, the partition's time is that of the "
                "clock less the delay: records that are older when they come in are late",
                self._topic.name,
                number,
                stamp.offset,
                format_time(stamp.time),
            )
        self._ahead = ahead
        stamps = ((number, newest[number]) for number in sorted(ahead))
        return [LogFact("moved_by", number, at.offset, at.time) for number, at in stamps]
