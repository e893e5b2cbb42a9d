"""Observers of topics on a real broker; every mark is compared with every record."""

import random
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import OFFSET_INVALID, Message, Producer, TopicPartition

from noted_time import AnotherLog, NotedTimeError, NotObservable, Recreated, Rejected, Unreachable
from noted_time.client import polling
from noted_time.kafka import Topic, TopicLook
from noted_time.observing import Nulls, TimeForm
from noted_time.values import LogFact
from tests.kafka.conftest import Flights, complete
from tests.support.transactions import begin_transaction
from tools.trials.kafka import Broker, Record
from tools.trials.waiting import PATIENCE_S, wait_until
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
from writer_client.kafka.fields import Start
from writer_client.sending.clock import unix_ms

pytestmark = pytest.mark.acceptance

AHEAD = 2_000_000_000_000
"""Later than all timestamps that the broker gives to transaction markers."""

DELAY = 5_000
TOPIC = {"message.timestamp.after.max.ms": AHEAD}
STREAM = {"domains": ["default", "ingestion"], "max_time_ahead_ms": None}


class Busy:
    """Four producers of a topic; three use overlapping transactions."""

    def __init__(self, flights: Flights, seed: int) -> None:
        self._flights, self._chance = flights, random.Random(seed)
        config = {**flights.broker.config, "linger.ms": 0, "log_level": 2}
        self._producers = [
            Producer({**config, **({"transactional.id": f"{flights.topic}-{n}"} if n else {})})
            for n in range(4)
        ]
        for producer in self._producers[1:]:
            producer.init_transactions(60)
        self._open = set[Producer]()
        self.partitions, self.time = 2, AHEAD

    def write(self) -> None:
        """Write records up to `DELAY` out of order, and begin or end transactions."""
        chance = self._chance
        for number, producer in enumerate(self._producers):
            if number and producer not in self._open:
                producer.begin_transaction()
                self._open.add(producer)
            for _ in range(chance.randrange(4)):
                self.time += chance.randrange(2000)
                time = self.time - chance.randrange(DELAY)
                partition, value = chance.randrange(self.partitions), f'{{"at": {time}}}'
                producer.produce(self._flights.topic, value, partition=partition, timestamp=time)
            assert producer.flush(60) == 0
        self.end(chance.choice([*self._open]))

    def grow(self) -> None:
        self.partitions += 1
        topic = self._flights.topic
        self._flights.broker.grow(topic, self.partitions)

        def all_know() -> bool:
            found = (each.list_topics(topic, timeout=PATIENCE_S) for each in self._producers)
            return all(len(each.topics[topic].partitions) == self.partitions for each in found)

        wait_until(all_know)

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


def look_until(noter: EventTimeNoter, flights: Flights, lower: int) -> None:
    """Look until the stream has the lower; committed ends lag behind a commit."""

    def reached() -> bool:
        noter.look()
        noter.client.flush()
        return flights.lower == lower

    wait_until(reached)


def timestamps(flights: Flights, _: WriterClient) -> KafkaTimes:
    """Observe the newest timestamps."""
    return KafkaTimes(*flights.place, clock=lambda: 2 * AHEAD)


def fields(flights: Flights, client: WriterClient) -> KafkaFields:
    """Observe times in the records, from the noted position on."""
    known = partial(getattr, client, "position")
    return KafkaFields(*flights.place, "at", known=known, start="earliest", ahead_ms=None)


@pytest.mark.parametrize("look_at", [timestamps, fields])
def test_event_time_is_exact_over_transactions_and_restarts(
    flights: Flights, look_at: Callable[..., Callable[[], Seen]]
) -> None:
    """No record below a lower lies beyond its cut."""
    busy = Busy(flights, seed=7)
    for turn in range(3):
        with flights.observe("default") as client:
            times = look_at(flights, client)
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
                flights.send(*((p, f'{{"at": {end}}}', end) for p in range(busy.partitions)))
                look_until(noter, flights, end - DELAY)

    assert flights.check_marks()
    assert len(flights.list_marks()) > 3
    assert all(mark["upper_is_bound"] for mark in flights.list_marks())


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
    assert [each.record.time for each in by_timestamp] == [1020, 1021]


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
    ended = f"log of stream '{topic}'.* ends at 0 and ended at 2"
    with flights.observe("ingestion") as client, pytest.raises(Recreated, match=ended):
        IngestionNoter(client, KafkaEnds(*flights.place)).run()


def test_ends_that_go_back_briefly_stop_no_observer(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed broker reports lower ends when it is back, though nothing is lost."""
    real, lower = Topic.look, [0]

    def look(self: Topic, **options: Any) -> TopicLook:  # noqa: ANN401 - any of them
        found = real(self, **options)
        lower[0] -= 1
        return replace(found, ends=dict.fromkeys(found.ends, 0)) if lower[0] >= 0 else found

    monkeypatch.setattr(Topic, "look", look)
    with flights.start() as producer:  # which looks every ten seconds
        producer.produce(value="a", event_time=1000, partition=0)
        producer.finish(60)
    with flights.observe("ingestion") as client:
        clock, ends = iter(range(0, 1000, 100)).__next__, KafkaEnds(*flights.place)
        noter = IngestionNoter(client, ends, poll_ms=10, max_lag_ms=10, clock=clock)
        for lower[0] in (0, 1, 0):
            noter._try_to_look()
        flushed = client.flush(60)
    lower[0] = 3
    again = flights.start()

    assert (flushed.lower, lower[0] < 0) == (200, True)
    assert again.client.position[0] == 1


def test_observer_and_producer_outlive_a_kill_of_the_broker(flights: Flights) -> None:
    """They look at once when it is back, and its ends are lower."""
    producer, count = flights.start(), 2000
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

    ends, because = {0: 2, 1: 0}, (LogFact("moved_by", 0, 1, ahead),)
    assert times() == Seen(ends, {0: 2000}, ahead, because)
    assert times() == Seen(ends, {}, ahead, because)
    (named,) = caplog.messages
    assert "partition 0: the record at offset 1 has the timestamp 20" in named


def test_implausible_times_are_skipped(flights: Flights, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the partition and the likely unit."""
    noon = 1_795_694_400_000
    times = [(0, noon, noon), (0, noon + 1, noon + 1), (1, noon // 1000, noon // 1000), (1, 0, 5)]
    flights.send(*((p, f'{{"at": {time}}}', stamp) for p, time, stamp in times))
    stamps = KafkaTimes(*flights.place, form=TimeForm())
    look = partial(KafkaFields, *flights.place, "at", form=TimeForm(), ahead_ms=None)
    first = look(start="earliest")

    assert [first().newest, first().newest] == [{0: noon + 1, 1: None}, {1: None}]
    assert (first.unusable, first.without_time) == (1, 1)
    assert look(known=lambda: {0: 2, 1: 2})().newest == {1: None}
    assert [stamps().newest, stamps().newest] == [{0: noon + 1, 1: None}, {1: None}]
    flights.send((1, f'{{"at": {noon}}}', noon))
    assert (first().newest, stamps().newest) == ({1: noon}, {1: noon})
    assert f"{flights.topic}', partition 1, offset 0: the record has no readable" in caplog.text
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
    """Markers have the broker's time; observers that read all timestamps skip them."""
    within = begin_transaction(flights.broker, flights.topic, "a", partition=1, timestamp=1000)
    within.commit_transaction(60)
    times = KafkaTimes(*flights.place)

    def is_named() -> bool:
        times()
        return f"{flights.topic}' uses transactions" in caplog.text

    wait_until(is_named)

    assert KafkaFields(*flights.place, get_timestamp, start="earliest")().newest == {1: 1000}


@pytest.mark.parametrize("kind", [Unreachable, NotObservable])
def test_undecodable_record_is_read_again(
    flights: Flights, monkeypatch: pytest.MonkeyPatch, kind: type[NotedTimeError]
) -> None:
    """All records of its batch are read again, even if Kafka reports no first offsets."""
    monkeypatch.setattr(Topic, "begins", Mock(side_effect=Unreachable("no leader answers")))
    flights.send(*((n % 2, f"{n}", 0) for n in range(1, 9)))
    asked: list[int] = []

    def decode(message: Message) -> int:
        asked.append(int(message.value() or b""))
        if len(asked) == 3:
            raise kind("the schema registry is away")
        return asked[-1]

    look = KafkaFields(*flights.place, decode, start="earliest")

    with pytest.raises(kind, match="registry"):
        look()
    assert (look().newest, look.unusable) == ({0: 8, 1: 7}, 0)
    assert sorted([*asked[:2], *asked[3:]]) == [*range(1, 9)]


def read_minutes(message: Message) -> int | None:
    """Return the time of a record with minutes."""
    return None if message.value() == b"none" else int(message.value() or b"") * 60_000


UNUSABLE = ["no JSON", "[1]", "{}", '{"at": true}', '{"at": "noon"}']
UNUSABLE += [f'{{"at": {AHEAD}}}']
UNUSABLE += ['{"at": "2013-01-01T10:00:00"}', f'{{"at": {2**70}}}', '{"at": {"at": 1}}']


@pytest.mark.parametrize("nulls", ["hold", "pass"])
def test_null_time_is_activity_and_a_null_above_it_is_none(flights: Flights, nulls: Nulls) -> None:
    """As of Debezium's deletes; also after a restart, and until a later time is read."""
    delete, null = '{"after": null}', '{"after": {"at": null}}'

    def observe(known: dict[int, int]) -> KafkaFields:
        start: Start = "earliest"
        return KafkaFields(
            *flights.place, "after.at", start=start, known=lambda: known, nulls=nulls
        )

    flights.send((0, '{"after": {"at": 7}}', 1000), (0, delete, 1000))
    look = observe({})
    seen = [look(), look()]
    flights.send((0, null, 1000), (0, delete, 1000))
    seen += [look(), look()]
    restarted = observe({0: 4, 1: 0})
    seen += [restarted(), restarted()]
    flights.send((0, '{"after": {"at": 9}}', 1000))
    seen += [restarted(), restarted()]

    held = {0: None} if nulls == "hold" else {}
    newest = [each.newest for each in seen]
    assert newest == [{0: 7}, {}, held, held, held, held, {0: 9}, {}]
    assert [fact.by for fact in seen[3].because] == ["--null pass"] * len(held)
    counts = (look.null_times, look.without_value, look.unusable, restarted.null_times)
    assert counts == (1, 2, 0, 0)


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
    flights: Flights,
    caplog: pytest.LogCaptureFixture,
    *,
    field: str,
    values: list[str],
    found: int,
    unusable: int,
) -> None:
    """Records without a time are counted, and the log names the first."""
    flights.send(*((0, value, 1000) for value in values))
    look = KafkaFields(*flights.place, field, start="earliest")

    largest = max(found, AHEAD if unusable == len(UNUSABLE) else found)
    assert look() == Seen({0: len(values), 1: 0}, {0: found}, largest)
    assert look() == Seen({0: len(values), 1: 0}, {}, largest)
    assert (look.unusable, len(caplog.messages)) == (unusable, bool(unusable))
    assert all(f"{flights.topic}', partition 0, offset " in each for each in caplog.messages)


def test_reading_continues_after_deleted_records(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names deleted records; a topic that ends before its read position was recreated."""
    flights.send(*((0, str(n), 1000) for n in range(9)))
    flights.broker.truncate(flights.topic, {0: 5})
    look = partial(KafkaFields, *flights.place, get_timestamp)
    beyond = look(known=lambda: {0: 12})

    assert look()() == Seen({0: 9, 1: 0})
    assert look(start="earliest")() == Seen({0: 9, 1: 0}, {0: 1000}, 1000)
    assert "were deleted" not in caplog.text
    assert look(known=lambda: {0: 2})() == Seen({0: 9, 1: 0}, {0: 1000}, 1000)
    assert "partition 0: the records from 2 to 5 were deleted" in caplog.text
    with pytest.raises(Recreated, match="partition 0 was read to 12, and ends before that"):
        beyond()


def test_a_mistyped_topic_is_refused_at_once(broker: Broker) -> None:
    """The error suggests a similar name, and has no traceback of Kafka's client."""
    broker.create("departed-flights")
    with pytest.raises(Rejected, match="did you mean 'departed-flights'") as refused:
        KafkaEnds(broker.config, "departed-flihgts")

    assert "KafkaException" not in "".join(traceback.format_exception(refused.value))


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
        return {each: complete(answer) for each in asked}


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
