"""Looks up the ends of a Kafka topic, and detects that it was recreated."""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from noted_time.client.polling import PATIENCE_S
from noted_time.kafka import Topic, TopicLook
from noted_time.kafka.records import TopicReader, log
from noted_time.observing import (
    IN_MS,
    GrowingEnds,
    NewestTimes,
    OpenTransactions,
    PassedOver,
    Passes,
    Seen,
    Stamp,
    TimeForm,
)
from noted_time.values import (
    LARGEST_TIME,
    LogFact,
    Rejected,
    Unreachable,
    find_missing_offsets,
    format_time,
)
from writer_client.sending.answers import FoundPosition
from writer_client.sending.clock import unix_ms

PAUSE_S = 0.2

CLOCK_AHEAD_MS = 60_000  # later timestamps are reported

CHECKED_PARTITIONS = 3  # their newest record is read

MOST_CHECKS = 3


class TopicEnds:
    """Looks up the ends of all partitions of a topic."""

    def __init__(self, config: Mapping[str, Any], topic: str, *, domain: str | None = None) -> None:
        self.topic = Topic(config, topic)
        self._domain = domain

    def look_up(self, noted_position: Mapping[int, int]) -> FoundPosition:
        """Return the ends, including uncommitted records, and the largest timestamp below them.

        `noted_position` is the writer's position at the controller.
        """
        look = self.check_same(noted_position)
        times = self.topic.largest_times()
        new_times = [
            min(time, LARGEST_TIME)
            for partition, time in times.items()
            if look.ends.get(partition, 0) > noted_position.get(partition, 0)
        ]
        if not new_times:
            return FoundPosition(look.ends, {})
        return FoundPosition(look.ends, {self._domain: max(new_times)})

    def check_same(self, noted_position: Mapping[int, int], source: str = "was noted") -> TopicLook:
        """Return the state of the topic. Raises `Recreated` if it is another topic of this name.

        It is another topic if its id differs, or if, for ten seconds, a partition is missing or
        ends before `noted_position`.
        """
        until = clocks.monotonic() + PATIENCE_S
        while True:
            look = self.topic.look_again()
            self.topic.check_leaders(look.unknown)
            behind = {
                missing.segment: missing.offset
                for missing in find_missing_offsets(look.ends, noted_position)
            }
            if not behind:
                return look
            if clocks.monotonic() >= until:
                raise self.topic.build_recreated(
                    f"it ends at {behind}, and {dict(noted_position)} {source}"
                )
            clocks.sleep(PAUSE_S)


class TopicPoller:
    """Polls a topic for an observer as read_committed readers see it.

    Checks that it stays the same topic, and finds its open transactions.
    """

    def __init__(self, config: Mapping[str, Any], topic: str, clock: Callable[[], int]) -> None:
        self._topic = Topic(config, topic)
        self._clock = clock
        self._open = OpenTransactions()
        self._ends = GrowingEnds(log=f"Kafka topic {topic!r}")
        with suppress(Unreachable):
            self._topic.look_again()

    def _poll_ends(self, *, high: bool = True, newest: bool = False) -> TopicLook:
        """Poll the ends; an open transaction holds back the end of its partition.

        Raises `Unreachable` without an answer for all partitions.
        """
        look = self._topic.look_again(committed=True, high=high, newest=newest)
        self._topic.check_leaders(look.unknown)
        self._ends.take(look.ends)  # first, as parts of it are reported only once
        return look

    @property
    def log_id(self) -> str | None:
        """The topic's id, or `None` before the first poll and without one."""
        return self._topic.id

    def _find_open_transactions(self, look: TopicLook) -> Sequence[LogFact]:
        return self._open.take(look.high, look.ends, now=self._clock())


class KafkaEnds(TopicPoller):
    """Returns the current ends of a topic when it is called, as read_committed readers see them.

    Raises `Rejected` if the topic does not exist or may not be described, `Recreated`, and
    `Unreachable`.
    """

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        super().__init__(config, topic, unix_ms)

    def __call__(self) -> Seen:
        look = self._poll_ends()
        return Seen(look.ends, because=self._find_open_transactions(look))


class KafkaTimes(TopicPoller):
    """Returns the ends of a topic and its newest timestamps, without reading records.

    A timestamp counts once read_committed readers reach its record, aborted or not. A record ahead
    of `clock` (Unix ms) counts as the clock, with a warning.

    Transaction markers have the broker's time and count as well. So records in transactions are
    late if they are older than the delay when they arrive. A warning is logged if the topic has
    transactions.

    `form` has the unit of the timestamps, by default Unix ms. With `TimeForm()`, it is inferred
    from the first ones found; a call raises `NotObservable` if it is in doubt. If most of the first
    ones are from 1971 to 2199, a newest one outside is passed over and counted (`unusable`). Its
    partition is not idle then, unless `passes` says so.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        *,
        clock: Callable[[], int] = unix_ms,
        form: TimeForm = IN_MS,
        passes: Passes | None = None,
    ) -> None:
        super().__init__(config, topic, clock)
        self._form = form
        self._newest = NewestTimes()
        self._passed = PassedOver(passes, now=clock())
        self._stamps: dict[int, Stamp] = {}  # the newest ones of the last call
        self.unusable = 0
        self._ahead: set[int] = set()
        self._checks_left = MOST_CHECKS

    def __call__(self) -> Seen:
        """Return the ends, and the newest time of each partition that is not idle."""
        look = self._poll_ends(newest=True)
        now = self._clock()
        times = [stamp.time for stamp in look.newest.values()]
        self._form = self._form.judge("timestamp", times, now)
        stamps = self._convert(look.newest, now)
        moved_by = self._find_times_ahead(stamps, now)
        self._warn_of_markers(look)
        largest = max((stamp.time for stamp in stamps.values()), default=None)
        active = self._open.find_active(look.high, look.ends) | self._passed.find_active(now=now)
        newest = self._newest.take(stamps, look.ends, now=now, active=active)
        passed_over = self._passed.list_facts(now=now)
        open_transactions = self._find_open_transactions(look)
        return Seen(look.ends, newest, largest, (*passed_over, *open_transactions, *moved_by))

    def _convert(self, newest: Mapping[int, Stamp], now: int) -> dict[int, Stamp]:
        stamps = dict[int, Stamp]()
        for number, stamp in newest.items():
            try:
                time = self._form.ms_of(min(stamp.time, LARGEST_TIME))
            except Rejected as error:
                if stamp != self._stamps.get(number):
                    self.unusable += 1
                    self._passed.add(number, stamp.offset, now=now)
                    log.warning(
                        "Kafka topic %r, partition %d: the newest timestamp, at offset %d, is "
                        "passed over: %s",
                        self._topic.name,
                        number,
                        stamp.offset,
                        error,
                    )
            else:
                self._passed.end(number)
                if time is not None:
                    stamps[number] = Stamp(time, stamp.offset)
        self._stamps.update(newest)
        return stamps

    def _warn_of_markers(self, look: TopicLook) -> None:
        visible = [
            (stamp.time, partition, stamp.offset)
            for partition, stamp in look.newest.items()
            if stamp.offset < look.ends[partition]
        ]
        if not self._checks_left or not visible:
            return
        self._checks_left -= 1
        offsets = {
            partition: offset for _, partition, offset in sorted(visible)[-CHECKED_PARTITIONS:]
        }
        with suppress(Unreachable), TopicReader(self._topic) as reader:
            reader.begin(offsets)
            records = reader.read({partition: offset + 1 for partition, offset in offsets.items()})
            record_partitions = {
                partition for partition, offset, _ in records if offset == offsets[partition]
            }
            passed_partitions = {
                partition
                for partition, offset in offsets.items()
                if reader.position[partition] > offset
            }
            if passed_partitions == offsets.keys():
                self._checks_left = 0
            if passed_partitions - record_partitions:
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
                "is ahead of this clock. Until the clock has passed it, the partition's time is "
                "the clock less the delay: records that are older when they arrive are late",
                self._topic.name,
                number,
                stamp.offset,
                format_time(stamp.time),
            )
        self._ahead = ahead
        facts = []
        for number in sorted(ahead):
            stamp = newest[number]
            facts.append(LogFact("moved_by", number, stamp.offset, stamp.time))
        return facts
