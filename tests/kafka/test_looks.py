"""Observers of topics on a real broker; every mark is compared with every record."""

import random
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from zoneinfo import ZoneInfo

import pytest
from confluent_kafka import OFFSET_INVALID, Message, Producer, TopicPartition

from demo.trials.kafka import Broker, Record
from demo.trials.served import Served
from demo.trials.waiting import PATIENCE_S, wait_until
from noted_time import AnotherLog, NotedTimeError, NotObservable, Recreated, Rejected, Unreachable
from noted_time.client import polling
from noted_time.kafka import Topic, TopicLook
from noted_time.observing import TimeForm
from noted_time.values import LogFact
from tests.kafka.conftest import Start
from tests.support.kafka_judge import judge_marks
from tests.support.transactions import begin_transaction
from writer_client import (
    EventTimeNoter,
    IngestionNoter,
    KafkaEnds,
    KafkaFields,
    KafkaTimes,
    Seen,
    WriterClient,
)
from writer_client.kafka.event_times import get_timestamp
from writer_client.sending.clock import unix_ms

pytestmark = pytest.mark.acceptance

AHEAD = 2_000_000_000_000
"""Later than all timestamps that the broker gives to transaction markers."""

DELAY = 5_000
TOPIC = {"message.timestamp.after.max.ms": AHEAD}
STREAM = {"domains": ["default", "ingestion"], "max_time_ahead_ms": None}


class Busy:
    """Four producers of a topic; three use overlapping transactions."""

    def __init__(self, broker: Broker, topic: str, seed: int) -> None:
        self._broker, self._topic, self._chance = broker, topic, random.Random(seed)
        config = {**broker.config, "linger.ms": 0, "log_level": 2}
        self._producers = [
            Producer({**config, **({"transactional.id": f"{topic}-{n}"} if n else {})})
            for n in range(4)
        ]
        for producer in self._producers[1:]:
            producer.init_transactions(60)
        self._open = set[Producer]()
        self.partitions, self.time = 2, AHEAD

    def write(self) -> None:
        """Write records up to `DELAY` out of order, and begin or end transactions."""
        for number, producer in enumerate(self._producers):
            if number and producer not in self._open:
                producer.begin_transaction()
                self._open.add(producer)
            for _ in range(self._chance.randrange(4)):
                self.time += self._chance.randrange(2000)
                back = self._chance.randrange(DELAY)
                partition = self._chance.randrange(self.partitions)
                time = self.time - back
                value = f'{{"at": {time}}}'
                producer.produce(self._topic, value, partition=partition, timestamp=time)
            assert producer.flush(60) == 0
        self.end(self._chance.choice([*self._open]))

    def grow(self) -> None:
        self.partitions += 1
        self._broker.grow(self._topic, self.partitions)
        for producer in self._producers:
            wait_until(partial(self._knows, producer))

    def _knows(self, producer: Producer) -> bool:
        found = producer.list_topics(self._topic, timeout=PATIENCE_S).topics[self._topic].partitions
        return len(found) == self.partitions

    def end(self, producer: Producer) -> None:
        """Commit the transaction, or sometimes abort it."""
        self._open.remove(producer)
        if self._chance.random() < 0.3:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)

    def close(self) -> None:
        for producer in [*self._open]:
            self.end(producer)


def look_until(noter: EventTimeNoter, served: Served, lower: int) -> None:
    """Look until the stream has the lower; committed ends lag behind a commit."""

    def reached() -> bool:
        noter.look()
        noter.client.flush()
        return bool(served.get(f"{noter.client.stream}/explain")["lower"] == lower)

    wait_until(reached)


def timestamps(broker: Broker, client: WriterClient) -> KafkaTimes:
    """Observe the newest timestamps."""
    return KafkaTimes(broker.config, client.stream, clock=lambda: 2 * AHEAD)


def fields(broker: Broker, client: WriterClient) -> KafkaFields:
    """Observe times in the records, from the noted position on."""
    return KafkaFields(
        broker.config,
        client.stream,
        "at",
        known=lambda: client.position,
        start="earliest",
        ahead_ms=None,
    )


@pytest.mark.parametrize("look_at", [timestamps, fields])
def test_event_time_is_exact_over_transactions_and_restarts(
    broker: Broker, served: Served, topic: str, look_at: Callable[..., Callable[[], Seen]]
) -> None:
    """No record below a lower lies beyond its cut."""
    busy = Busy(broker, topic, seed=7)
    for turn in range(3):
        with WriterClient(served.url, topic, "observer", domains=["default"]) as client:
            times = look_at(broker, client)
            noter = EventTimeNoter(client, times, delay_ms=DELAY, idle_timeout_ms=0)
            for _ in range(10):
                busy.write()
                noter.look()
                client.flush()
            if turn == 0:
                busy.grow()
            elif turn == 2:
                busy.close()
                end = busy.time + 2 * DELAY
                last = f'{{"at": {end}}}'
                broker.send(topic, [(p, last, end) for p in range(busy.partitions)])
                look_until(noter, served, end - DELAY)

    verdict = judge_marks(broker, topic, controller=served)
    assert verdict.violations == ()
    assert verdict.marks > 3
    assert all(mark["upper_is_bound"] for mark in served.all_marks(topic))


def test_ingestion_time_is_when_a_record_became_visible(
    broker: Broker, served: Served, topic: str
) -> None:
    """A record in a transaction has an earlier timestamp; by timestamps it would be late."""
    now = [0]

    with WriterClient(served.url, topic, "observer", domains=["ingestion"]) as client:
        ends = KafkaEnds(broker.config, topic)
        noter = IngestionNoter(client, ends, poll_ms=10, max_lag_ms=10, clock=lambda: now[0])

        def look_at(time: int) -> None:
            now[0] = time
            noter.look()
            client.flush()

        broker.send(topic, [(0, "plain", 1000)])
        look_at(1010)
        producer = begin_transaction(broker, topic, "in a transaction", partition=0, timestamp=1020)
        broker.send(topic, [(0, "behind it", 1021), (1, "next to it", 1022)])
        look_at(1030)
        producer.commit_transaction(60)
        wait_until(lambda: ends() == Seen({0: 4, 1: 1}))
        look_at(1040)

    def visible(record: Record) -> int:
        return 1031 if record.partition == 0 and record.offset else record.time

    def beyond(time_of: Callable[[Record], int]) -> list[int]:
        verdict = judge_marks(broker, topic, controller=served, domain="ingestion", time_of=time_of)
        return [each.record.time for each in verdict.violations]

    marks = [(mark["lower"], mark["cut"]) for mark in served.all_marks(topic, "ingestion")]
    assert marks == [(1010, {"0": 1}), (1030, {"0": 1, "1": 1}), (1040, {"0": 4, "1": 1})]
    assert (beyond(visible), beyond(lambda record: record.time)) == ([], [1020, 1021])


def test_a_recreated_topic_stops_its_observer_and_the_next_one(
    broker: Broker, served: Served, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic's id shows it; without an id the noted ends do."""
    broker.send(topic, [(0, "a", 1000), (0, "b", 1000)])
    with WriterClient(served.url, topic, "observer", domains=["ingestion"]) as client:
        noter = IngestionNoter(client, KafkaEnds(broker.config, topic))
        noter.look()
        client.flush()
        broker.create(topic, 2)
        broker.send(topic, [(0, "c", 1000)] * 3)
        with pytest.raises(Recreated, match=f"{topic}' was deleted and .* delete it or use"):
            noter.look()
    with WriterClient(served.url, topic, "observer", domains=["ingestion"]) as client:
        noter = IngestionNoter(client, KafkaEnds(broker.config, topic))
        with pytest.raises(AnotherLog):
            noter.run()
    broker.create(topic, 2)
    monkeypatch.setattr(polling, "PATIENCE_S", 0.0)
    served.stream(topic, "ingestion").note("observer", 1000, {0: 2}, domain="ingestion")
    with WriterClient(served.url, topic, "observer", domains=["ingestion"]) as client:
        noter = IngestionNoter(client, KafkaEnds(broker.config, topic))
        with pytest.raises(Recreated, match=f"log of stream '{topic}'.* ends at 0 and ended at 2"):
            noter.run()


def test_ends_that_go_back_briefly_stop_no_observer(
    broker: Broker, served: Served, topic: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed broker reports lower ends when it is back, though nothing is lost."""
    real, lower = Topic.look, [0]

    def look(self: Topic, **options: Any) -> TopicLook:  # noqa: ANN401 - any of them
        found = real(self, **options)
        lower[0] -= 1
        return replace(found, ends=dict.fromkeys(found.ends, 0)) if lower[0] >= 0 else found

    monkeypatch.setattr(Topic, "look", look)
    with start() as producer:  # which looks every ten seconds
        producer.produce(value="a", event_time=1000, partition=0)
        producer.finish(60)
    with WriterClient(served.url, topic, "observer", domains=["ingestion"]) as client:
        clock = iter(range(0, 1000, 100)).__next__
        ends = KafkaEnds(broker.config, topic)
        noter = IngestionNoter(client, ends, poll_ms=10, max_lag_ms=10, clock=clock)
        for lower[0] in (0, 1, 0):
            noter._try_to_look()
        flushed = client.flush(60)
    lower[0] = 3
    again = start()

    assert (flushed.lower, lower[0] < 0) == (200, True)
    assert again.client.position[0] == 1


def test_observer_and_producer_outlive_a_kill_of_the_broker(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """They look at once when it is back, and its ends are lower."""
    producer, count = start(), 2000
    with (
        WriterClient(served.url, topic, "observer", domains=["ingestion"]) as client,
        IngestionNoter(client, KafkaEnds(broker.config, topic), poll_ms=10) as noter,
    ):
        for n in range(count):
            producer.produce(value="a", event_time=n + 1)
            if n == count // 2:
                producer.flush(60)
                broker.kill()
                broker.start()
        producer.finish(60)
        wait_until(lambda: sum(client.position.values()) == count)
        noter.check()


def test_a_record_from_the_future_is_named(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names its offset once; the record counts as present."""
    ahead = unix_ms() + 3_000_000
    broker.send(topic, [(0, "a", 1000), (0, "b", ahead)])
    times = KafkaTimes(broker.config, topic, clock=lambda: 2000)

    ends, because = {0: 2, 1: 0}, [LogFact("moved_by", 0, 1, ahead)]
    looks = [(each.ends, each.newest, each.largest, [*each.because]) for each in (times(), times())]
    assert looks == [(ends, {0: 2000}, ahead, because), (ends, {}, ahead, because)]
    named = [record.getMessage() for record in caplog.records]
    assert len(named) == 1
    assert "partition 0: the record at offset 1 has the timestamp 20" in named[0]


def test_timestamps_in_seconds_need_their_unit(broker: Broker, topic: str) -> None:
    broker.send(topic, [(0, "a", 1_795_694_400)])

    with pytest.raises(
        NotObservable, match=r"`timestamp` look like Unix seconds .*: pass --unit s"
    ):
        KafkaTimes(broker.config, topic, form=TimeForm())()
    times = KafkaTimes(broker.config, topic, form=TimeForm("s"))
    assert times().newest == {0: 1_795_694_400_000}


def test_implausible_times_are_skipped(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the partition and the likely unit."""
    noon = 1_795_694_400_000
    times = [(0, noon, noon), (0, noon + 1, noon + 1), (1, noon // 1000, noon // 1000)]
    values = [(p, f'{{"at": {time}}}', stamp) for p, time, stamp in [*times, (1, 0, 5)]]
    broker.send(topic, values)
    stamps = KafkaTimes(broker.config, topic, form=TimeForm())
    look = partial(KafkaFields, broker.config, topic, "at", form=TimeForm(), ahead_ms=None)
    first = look(start="earliest")

    assert [first().newest, first().newest] == [{0: noon + 1, 1: None}, {1: None}]
    assert (first.unusable, first.without_time) == (1, 1)
    assert look(known=lambda: {0: 2, 1: 2})().newest == {1: None}
    assert [stamps().newest, stamps().newest] == [{0: noon + 1, 1: None}, {1: None}]
    broker.send(topic, [(1, f'{{"at": {noon}}}', noon)])
    assert (first().newest, stamps().newest) == ({1: noon}, {1: noon})
    assert f"{topic}', partition 1, offset 0: the record has no readable time" in caplog.text
    assert f"'{noon // 1000}' is among times that look like Unix seconds" in caplog.text


def test_records_of_a_repeated_hour_are_not_late(
    broker: Broker, served: Served, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names them, and they hold time until a later hour is read."""
    hour = [f'{{"at": "2025-10-26 02:{minute}:00"}}' for minute in (58, 59, 10)]
    broker.send(topic, [(p, value, 0) for value in hour for p in (0, 1)])
    form = TimeForm(zone=ZoneInfo("Europe/Berlin"))
    with WriterClient(served.url, topic, "observer", domains=["default"]) as client:
        times = KafkaFields(
            *(broker.config, topic, "at"), start="earliest", form=form, client=client
        )
        noter = EventTimeNoter(client, times, delay_ms=0, idle_timeout_ms=0)
        look_until(noter, served, 1_761_440_340_000)
        broker.send(topic, [(p, hour[0], 0) for p in (0, 1)])
        broker.send(topic, [(p, '{"at": "2025-10-26 03:00:00"}', 0) for p in (0, 1)])
        look_until(noter, served, 1_761_444_000_000)
        client.flush()

    assert (served.get(f"{topic}/writers/observer")["late"], times.twice) == ({}, 8)
    assert caplog.text.count("in an hour that the zone has twice are read as of the first") == 1


def test_record_with_the_largest_time_keeps_its_observer(
    broker: Broker, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """Time still advances; only the upper of its marks does not bound all records."""
    topic, end = "end-of-time", 2**63 - 1
    broker.create(topic, 1, {"message.timestamp.after.max.ms": end})
    served.make(topic)
    broker.send(topic, [(0, "a", 1000), (0, "b", end)])
    lowers = []
    for now in (5000, 6000):  # the second is a restart
        with WriterClient(served.url, topic, "observer") as client:
            times = KafkaTimes(broker.config, topic, clock=lambda: now)  # noqa: B023 - at once
            noter = EventTimeNoter(client, times, delay_ms=0, idle_timeout_ms=0)
            noter.look()
            lowers.append(client.flush().lower)

    assert lowers == [5000, 6000]
    assert f"the record at offset 1 has the timestamp {end - 1}" in caplog.text


def test_an_observer_warns_of_transactions_whose_markers_count(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Markers have the broker's time; observers that read all timestamps skip them."""
    begin_transaction(broker, topic, "a", partition=1, timestamp=1000).commit_transaction(60)
    times = KafkaTimes(broker.config, topic)

    def is_named() -> bool:
        times()
        return f"{topic}' uses transactions" in caplog.text

    wait_until(is_named)
    fields = KafkaFields(broker.config, topic, get_timestamp, start="earliest")

    assert fields().newest == {1: 1000}


def read_value(message: Message) -> int:
    return int(message.value() or b"")


@pytest.mark.parametrize("kind", [Unreachable, NotObservable])
def test_undecodable_record_is_read_again(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, kind: type[NotedTimeError]
) -> None:
    """All records of its batch are read again, even if Kafka reports no first offsets."""
    monkeypatch.setattr(Topic, "begins", Mock(side_effect=Unreachable("no leader answers")))
    broker.send(topic, [(n % 2, f"{n}", 0) for n in range(1, 9)])
    asked: list[int] = []

    def decode(message: Message) -> int:
        asked.append(read_value(message))
        if len(asked) == 3:
            raise kind("the schema registry is away")
        return asked[-1]

    look = KafkaFields(broker.config, topic, decode, start="earliest")

    with pytest.raises(kind, match="registry"):
        look()
    assert (look().newest, look.unusable) == ({0: 8, 1: 7}, 0)
    assert sorted([*asked[:2], *asked[3:]]) == [*range(1, 9)]


def read_minutes(message: Message) -> int | None:
    """Return the time of a record with minutes."""
    return None if message.value() == b"none" else int(message.value() or b"") * 60_000


UNUSABLE = ["no JSON", "[1]", "{}", '{"at": true}', '{"at": "noon"}', '{"at": null}']
UNUSABLE += [f'{{"at": {AHEAD}}}']
UNUSABLE += ['{"at": "2013-01-01T10:00:00"}', f'{{"at": {2**70}}}', '{"at": {"at": 1}}']


@pytest.mark.parametrize(
    ("field", "values", "found", "unusable"),
    [
        ("at", [*UNUSABLE, '{"at": 7}', '{"at": 5}'], 7, len(UNUSABLE)),
        ("at", ['{"at": "1970-01-01T01:00:00+01:00"}'], 0, 0),
        ("a.from", ['{"a": 9}', '{"a": {"from": 3}, "from": 8}'], 3, 1),
        ("a.at", ['{"a": [{}]}', '{"a": [{"at": 3}, {"at": [8, 5]}, {}]}', '{"a": []}'], 8, 1),
        ("at", ['[{"at": 3}, {"at": 8}]', '[{"at": 5}, {"at": "noon"}]', "[]"], 8, 1),
        ("tests.kafka.test_looks:read_minutes", ["2", "two", "none"], 120_000, 1),
    ],
)
def test_times_are_read_from_records(  # noqa: PLR0913 - a table
    broker: Broker,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    *,
    field: str,
    values: list[str],
    found: int,
    unusable: int,
) -> None:
    """Records without a time are counted, and the log names the first."""
    broker.send(topic, [(0, value, 1000) for value in values])
    look = KafkaFields(broker.config, topic, field, start="earliest")

    largest = max(found, AHEAD if unusable == len(UNUSABLE) else found)
    assert look() == Seen({0: len(values), 1: 0}, {0: found}, largest)
    assert look() == Seen({0: len(values), 1: 0}, {}, largest)
    named = [record.getMessage() for record in caplog.records]
    assert look.unusable == unusable
    assert len(named) == bool(unusable)
    assert all(f"{topic}', partition 0, offset " in each for each in named)


def test_records_below_what_was_noted_are_reported_as_late(
    broker: Broker, served: Served, topic: str
) -> None:
    """The report has number, least and largest time, also for records written between observers."""
    look = partial(KafkaFields, broker.config, topic, read_value, start="earliest", ahead_ms=None)

    def observe(end: int) -> object:
        """Look until all records are noted; return the writer's late rows."""
        with WriterClient(served.url, topic, "observer", domains=["default"]) as client:
            times = look(known=lambda: client.position, client=client)
            clock = count(0, 20_000).__next__  # so that each look gives a sign of life
            noter = EventTimeNoter(client, times, delay_ms=0, idle_timeout_ms=0, clock=clock)
            while sum(client.position.values()) < end:
                noter.look()
            client.flush()
        return served.get(f"{topic}/writers/observer")["late"]

    broker.send(topic, [(0, "1007", 0), (1, "1005", 0)])
    assert observe(2) == {}
    broker.send(topic, [(0, "1004", 0), (0, "1003", 0), (0, "1005", 0), (1, "1006", 0)])
    assert observe(6) == {"default": {"rows": 2, "least": 1003, "most": 1004}}
    broker.send(topic, [(1, "1002", 0)])
    assert observe(7) == {"default": {"rows": 3, "least": 1002, "most": 1004}}


def test_record_of_several_events_counts_its_largest_time(
    broker: Broker, served: Served, topic: str
) -> None:
    """A record with several late events counts once."""
    broker.send(topic, [(0, "[1005]", 0), (1, "[1001, 1007]", 0)])
    with WriterClient(served.url, topic, "observer", domains=["default"]) as client:
        times = KafkaFields(
            *(broker.config, topic, read_array), start="earliest", ahead_ms=None, client=client
        )
        noter = EventTimeNoter(client, times, delay_ms=0, idle_timeout_ms=0)
        look_until(noter, served, 1005)
        broker.send(topic, [(0, "[1003, 1009, 1002]", 0), (1, "[1008]", 0)])
        look_until(noter, served, 1008)
        client.flush()

    late = served.get(f"{topic}/writers/observer")["late"]
    assert late == {"default": {"rows": 1, "least": 1002, "most": 1002}}


def read_array(message: Message) -> list[int]:
    return [int(time) for time in (message.value() or b"").decode().strip("[]").split(",")]


def test_reading_continues_after_deleted_records(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names deleted records; a topic that ends before its read position was recreated."""
    broker.send(topic, [(0, str(n), 1000) for n in range(9)])
    broker.truncate(topic, {0: 5})
    look = KafkaFields(broker.config, topic, get_timestamp, known=lambda: {0: 2})
    beyond = KafkaFields(broker.config, topic, get_timestamp, known=lambda: {0: 12})

    latest = KafkaFields(broker.config, topic, get_timestamp)
    earliest = KafkaFields(broker.config, topic, get_timestamp, start="earliest")

    assert latest() == Seen({0: 9, 1: 0})
    assert earliest() == Seen({0: 9, 1: 0}, {0: 1000}, 1000)
    assert "were deleted" not in caplog.text
    assert look() == Seen({0: 9, 1: 0}, {0: 1000}, 1000)
    assert "partition 0: the records from 2 to 5 were deleted" in caplog.text
    with pytest.raises(Recreated, match="partition 0 was read to 12, and ends before that"):
        beyond()


def test_a_mistyped_topic_is_refused_at_once(broker: Broker) -> None:
    """The error suggests a similar name, and has no traceback of Kafka's client."""
    broker.create("departed-flights")
    with pytest.raises(Rejected) as refused:
        KafkaEnds(broker.config, "departed-flihgts")

    assert str(refused.value) == (
        f"there is no Kafka topic 'departed-flihgts' at {broker.address}: "
        "did you mean 'departed-flights'?"
    )
    assert "KafkaException" not in "".join(traceback.format_exception(refused.value))


class Ending:
    """A client of a stopping broker, which may answer without an offset."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def describe_topics(self, *_: object, **__: object) -> dict[str, Future[Any]]:
        partition = SimpleNamespace(id=0, isr=[1])
        return {"topic": _complete(SimpleNamespace(topic_id="id", partitions=[partition]))}

    def list_offsets(
        self, asked: Iterable[TopicPartition], **_: object
    ) -> dict[TopicPartition, Future[Any]]:
        """Return the offset for each partition."""
        return {
            each: _complete(SimpleNamespace(timestamp=-1, offset=self._offset)) for each in asked
        }


def _complete(answer: object) -> Future[Any]:
    future = Future[Any]()
    future.set_result(answer)
    return future


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
