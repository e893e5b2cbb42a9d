"""Observes a topic's time by the timestamps that its brokers assign."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from noted_time.kafka.records import TopicReader, log
from noted_time.observing import BrokerClocks, BrokerLook, Seen
from noted_time.values import NotObservable, Rejected, Unreachable, format_time, group_late_rows
from writer_client.client import WriterClient
from writer_client.kafka.ends import SameTopic, TopicPoller
from writer_client.sending.clock import unix_ms

LOG_APPEND_TIME = "LogAppendTime"
DOUBT_S = 30.0
MARGIN_MS = 4_000  # for the change of the in-sync replicas


class KafkaBrokerTimes(TopicPoller):
    """Returns the ends of a topic with LogAppendTime, and the time of each partition.

    Records that become visible later have stamps at or above their partition's time, while the
    brokers' clocks and this clock differ by at most `skew_ms`. Only new records with doubtful
    stamps are read. Late ones are counted (`late`), logged, and reported by `client`.

    The time of a partition without new records is `clock` (Unix ms) less `lag_ms`. The default lag
    is 1.5 times the brokers' `replica.lag.time.max.ms`, plus the skew and four seconds.

    Raises `NotObservable` if the topic has CreateTime or the lag is too short, and `Rejected` if
    the client may not read these settings.
    """

    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        config: Mapping[str, Any],
        topic: str,
        *,
        skew_ms: int = 1000,
        lag_ms: int | None = None,
        clock: Callable[[], int] = unix_ms,
        client: WriterClient | None = None,
    ) -> None:
        self.late = 0
        super().__init__(SameTopic(config, topic), clock)
        self._skew_ms, self._lag_ms = skew_ms, lag_ms
        self._client = client
        self._clocks: BrokerClocks | None = None
        self._in_sync = 1
        with suppress(Unreachable):
            self._begin()

    def __call__(self) -> Seen:
        clocks, now = self._begin(), self._clock()
        look = self._topic.poll_ends(newest=True)
        hidden = [number for number, end in look.ends.items() if end and number not in look.newest]
        recent = self._topic.first_stamps(now - self._skew_ms, hidden)
        too_few = {number for number, some in look.in_sync.items() if some < self._in_sync}
        self._check()  # last, so that it holds for the stamps read before
        broker_look = BrokerLook(now, too_few, look.high, look.ends, look.newest, recent)
        doubts = clocks.take(broker_look)
        if doubts:
            self._read(doubts, clocks)
        stamps = [stamp.time for stamp in look.newest.values()]
        if hidden:  # their stamps are unknown, but not from the future
            stamps.append(self._clock() + self._skew_ms)
        largest = max(stamps, default=None)
        return Seen(look.ends, clocks.times(), largest, self._find_open_transactions(look))

    def _begin(self) -> BrokerClocks:
        if self._clocks is None:
            self._check()
            lag_ms = self._find_lag_ms()
            self._clocks = BrokerClocks(skew_ms=self._skew_ms, lag_ms=lag_ms)
        return self._clocks

    def _check(self) -> None:
        settings = self._topic.settings()
        self._in_sync = int(settings["min.insync.replicas"])
        if settings["message.timestamp.type"] != LOG_APPEND_TIME:
            raise NotObservable(
                f"the records of Kafka topic {self._topic.name!r} have the times of their "
                f"producers: set its message.timestamp.type to {LOG_APPEND_TIME}, or observe it by "
                "timestamp, with a delay"
            )

    def _find_lag_ms(self) -> int:
        try:
            brokers = self._topic.broker_settings()
        except Rejected as error:
            if self._lag_ms is None:
                raise Rejected(f"{error}, or give a lag") from error
            return self._lag_ms
        slowest = max(int(each["replica.lag.time.max.ms"]) for each in brokers)
        least_lag_ms = slowest * 3 // 2 + self._skew_ms
        if self._lag_ms is not None and self._lag_ms < least_lag_ms:
            raise NotObservable(
                f"a lag of {self._lag_ms} ms is less than replication may take: at least "
                f"{least_lag_ms} ms, with replica.lag.time.max.ms={slowest} and the skew"
            )
        return least_lag_ms + MARGIN_MS if self._lag_ms is None else self._lag_ms

    def _read(self, doubts: Mapping[int, range], clocks: BrokerClocks) -> None:
        late: list[tuple[int, int, int]] = []
        newest: dict[int, int] = {}
        stops = {number: offsets.stop for number, offsets in doubts.items()}
        with TopicReader(self._topic) as reader:
            reader.begin({number: offsets.start for number, offsets in doubts.items()})
            for number, offset, message in reader.read(stops, for_s=DOUBT_S):
                if offset < stops[number]:
                    kind, time = message.timestamp()
                    if kind == TIMESTAMP_LOG_APPEND_TIME:
                        newest[number] = max(time, newest.get(number, time))
                    if clocks.noted is not None and time < clocks.noted:
                        late.append((time, number, offset))
            if reader.find_behind(stops):
                raise Unreachable(f"Kafka topic {self._topic.name!r} is not read in time")
        for number in doubts:
            clocks.correct(number, newest.get(number))
        if late:
            self._report(late, clocks.noted or 0)

    def _report(self, late: list[tuple[int, int, int]], noted: int) -> None:
        time, number, offset = min(late)
        self.late += len(late)
        if self._client is not None:
            for each in group_late_rows(stamp for stamp, _, _ in late):
                self._client.wrote_late(each.rows, each.least, each.most)
        log.warning(
            "Kafka topic %r: %d records have stamps below the noted time %s (%d in all). The "
            "least is %s, of partition %d, offset %d: the clock of a broker is behind",
            *(self._topic.name, len(late), format_time(noted), self.late),
            *(format_time(time), number, offset),
        )
