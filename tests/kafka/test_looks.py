"""Observers of topics on a real broker; every mark is compared with every record."""

import traceback
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition

from noted_time import AnotherLog, Recreated, Rejected
from noted_time.client import polling
from noted_time.kafka import Topic, TopicLook
from noted_time.observing import TimeForm
from noted_time.values import LogFact
from tests.kafka.conftest import Flights, complete
from tests.support.busy_topic import BUSY_TIME, BUSY_TOPIC, observe_busy_topic
from tests.support.transactions import begin_transaction
from tools.trials.kafka import Broker, Record
from tools.trials.waiting import wait_until
from writer_client import EventTimeNoter, IngestionNoter, KafkaEnds, KafkaTimes, Seen
from writer_client.sending.clock import unix_ms

pytestmark = pytest.mark.acceptance

TOPIC = BUSY_TOPIC
STREAM = {"domains": ["default", "ingestion"], "max_time_ahead_ms": None}


def test_timestamps_are_exact_over_transactions_and_restarts(flights: Flights) -> None:
    """No record below a lower lies beyond its cut."""

    def make_times(flights: Flights, _: object) -> KafkaTimes:
        return KafkaTimes(*flights.place, clock=lambda: 2 * BUSY_TIME)

    observe_busy_topic(flights, make_times)

    marks = flights.list_marks()
    assert flights.check_marks()
    assert len(marks) > 3
    assert all(mark["upper_is_bound"] for mark in marks)


def test_ingestion_time_is_when_a_record_became_visible(flights: Flights) -> None:
    """A record in a transaction has an earlier timestamp; by timestamps it would be late."""
    now = 0
    with flights.observe("ingestion") as client:
        ends = KafkaEnds(*flights.place)
        noter = IngestionNoter(client, ends, poll_ms=10, max_lag_ms=10, clock=lambda: now)

        def look_at(time: int) -> None:
            nonlocal now
            now = time
            noter.look()
            client.flush()

        flights.send((0, "plain", 1000))
        look_at(1010)
        within = begin_transaction(
            flights.broker, flights.topic, "within", partition=0, timestamp=1020
        )
        flights.send((0, "behind it", 1021), (1, "next to it", 1022))
        look_at(1030)
        within.commit_transaction(60)
        wait_until(lambda: ends() == Seen({0: 4, 1: 1}))
        look_at(1040)

    def visible(record: Record) -> int:
        return 1031 if record.partition == 0 and record.offset else record.time

    marks = [(mark["lower"], mark["cut"]) for mark in flights.list_marks("ingestion")]
    by_timestamp = flights.judge(domain="ingestion").violations
    assert marks == [(1010, {"0": 1}), (1030, {"0": 1, "1": 1}), (1040, {"0": 4, "1": 1})]
    assert flights.check_marks(domain="ingestion", time_of=visible)
    assert [violation.record.time for violation in by_timestamp] == [1020, 1021]


def test_a_recreated_topic_stops_its_observer_and_the_next_one(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic's id shows it; without an id the noted ends do."""
    topic = flights.topic
    flights.send((0, "a", 1000), (0, "b", 1000))
    with flights.observe("ingestion") as client:
        noter = IngestionNoter(client, KafkaEnds(*flights.place))
        noter.look()
        client.flush()
        flights.broker.create(topic, 2)
        flights.send(*[(0, "c", 1000)] * 3)
        with pytest.raises(Recreated, match=f"{topic}' was deleted and .* delete it or use"):
            noter.look()
    with flights.observe("ingestion") as client, pytest.raises(AnotherLog):
        IngestionNoter(client, KafkaEnds(*flights.place)).run()
    flights.broker.create(topic, 2)
    monkeypatch.setattr(polling, "PATIENCE_S", 0.0)
    flights.served.stream(topic, "ingestion").note("observer", 1000, {0: 2}, domain="ingestion")
    pattern = f"log of stream '{topic}'.* ends at 0 and ended at 2"
    with flights.observe("ingestion") as client, pytest.raises(Recreated, match=pattern):
        IngestionNoter(client, KafkaEnds(*flights.place)).run()


def test_ends_that_go_back_briefly_stop_no_observer(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed broker reports lower ends when it is back, though nothing is lost."""
    real = Topic.look
    lower = [0]

    def look(self: Topic, **options: Any) -> TopicLook:  # noqa: ANN401 - any of them
        topic_look = real(self, **options)
        lower[0] -= 1
        return (
            replace(topic_look, ends=dict.fromkeys(topic_look.ends, 0))
            if lower[0] >= 0
            else topic_look
        )

    monkeypatch.setattr(Topic, "look", look)
    with flights.start() as producer:  # which looks every ten seconds
        producer.produce(value="a", event_time=1000, partition=0)
        producer.finish(60)
    with flights.observe("ingestion") as client:
        clock = iter(range(0, 1000, 100)).__next__
        ends = KafkaEnds(*flights.place)
        noter = IngestionNoter(client, ends, poll_ms=10, max_lag_ms=10, clock=clock)
        for lower[0] in (0, 1, 0):
            noter._try_to_look()
        flushed_promise = client.flush(60)
    lower[0] = 3
    second_producer = flights.start()

    assert (flushed_promise.lower, lower[0] < 0) == (200, True)
    assert second_producer.client.position[0] == 1


def test_observer_and_producer_outlive_a_kill_of_the_broker(flights: Flights) -> None:
    """They look at once when it is back, and its ends are lower."""
    producer = flights.start()
    count = 2000
    with (
        flights.observe("ingestion") as client,
        IngestionNoter(client, KafkaEnds(*flights.place), poll_ms=10) as noter,
    ):
        for n in range(count):
            producer.produce(value="a", event_time=n + 1)
            if n == count // 2:
                producer.flush(60)
                flights.broker.kill()
                flights.broker.start()
        producer.finish(60)
        wait_until(lambda: sum(client.position.values()) == count)
        noter.check()


def test_a_record_from_the_future_is_named(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names its offset once; the record counts as present."""
    ahead = unix_ms() + 3_000_000
    flights.send((0, "a", 1000), (0, "b", ahead))
    times = KafkaTimes(*flights.place, clock=lambda: 2000)

    ends = {0: 2, 1: 0}
    because = (LogFact("moved_by", 0, 1, ahead),)
    assert times() == Seen(ends, {0: 2000}, ahead, because)
    assert times() == Seen(ends, {}, ahead, because)
    (warning,) = caplog.messages
    assert "partition 0: the record at offset 1 has the timestamp 20" in warning


def test_implausible_timestamps_are_skipped(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the partition and the likely unit."""
    noon = 1_795_694_400_000
    stamps = [(0, noon), (0, noon + 1), (1, noon // 1000), (1, 5)]
    flights.send(*((partition, "a", stamp) for partition, stamp in stamps))
    look = KafkaTimes(*flights.place, form=TimeForm())

    assert [look().newest, look().newest] == [{0: noon + 1, 1: None}, {1: None}]
    flights.send((1, "a", noon))
    assert look().newest == {1: noon}
    assert f"'{noon // 1000}' is among times that look like Unix seconds" in caplog.text


def test_record_with_the_largest_time_keeps_its_observer(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """Time still advances; only the upper of its marks does not bound all records."""
    end = 2**63 - 1
    flights.broker.create(flights.topic, 1, {"message.timestamp.after.max.ms": end})
    flights.send((0, "a", 1000), (0, "b", end))
    lowers = []
    for now in (5000, 6000):  # the second is a restart
        with flights.observe("default") as client:
            times = KafkaTimes(*flights.place, clock=lambda: now)  # noqa: B023 - at once
            EventTimeNoter(client, times, delay_ms=0, idle_timeout_ms=0).look()
            lowers.append(client.flush().lower)

    assert lowers == [5000, 6000]
    assert f"the record at offset 1 has the timestamp {end - 1}" in caplog.text


def test_an_observer_warns_of_transactions_whose_markers_count(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """Markers have the broker's time."""
    within = begin_transaction(flights.broker, flights.topic, "a", partition=1, timestamp=1000)
    within.commit_transaction(60)
    times = KafkaTimes(*flights.place)

    def is_named() -> bool:
        times()
        return f"{flights.topic}' uses transactions" in caplog.text

    wait_until(is_named)


def test_a_mistyped_topic_is_refused_at_once(broker: Broker) -> None:
    """The error suggests a similar name, and has no traceback of Kafka's client."""
    broker.create("departed-flights")
    with pytest.raises(Rejected, match="did you mean 'departed-flights'") as refusal:
        KafkaEnds(broker.config, "departed-flihgts")

    assert "KafkaException" not in "".join(traceback.format_exception(refusal.value))


class Ending:
    """A client of a stopping broker, which may answer without an offset."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def describe_topics(self, *_: object, **__: object) -> dict[str, Future[Any]]:
        partition = SimpleNamespace(id=0, isr=[1])
        return {"topic": complete(SimpleNamespace(topic_id="id", partitions=[partition]))}

    def list_offsets(
        self, asked: Iterable[TopicPartition], **_: object
    ) -> dict[TopicPartition, Future[Any]]:
        """Return the offset for each partition."""
        answer = SimpleNamespace(timestamp=-1, offset=self._offset)
        return {partition: complete(answer) for partition in asked}


@pytest.mark.parametrize(
    ("offset", "ends", "unknown"), [(7, {0: 7}, frozenset()), (OFFSET_INVALID, {}, frozenset({0}))]
)
def test_an_answer_without_an_offset_leaves_the_end_unknown(
    offset: int, ends: dict[int, int], unknown: frozenset[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an end it would mean a recreated log, and stop the observer."""
    monkeypatch.setattr("noted_time.kafka.connecting.AdminClient", lambda _: Ending(offset))
    look = Topic({"bootstrap.servers": "127.0.0.1:9"}, "topic").look()

    assert (look.ends, look.unknown) == (ends, unknown)
