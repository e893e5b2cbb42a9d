"""Resolved records, and looks at topics, on a real broker."""

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest
from confluent_kafka import Producer

from noted_time import Unreachable
from noted_time.kafka.groups import GroupOffsets
from noted_time.kafka.topic import Topic, TopicLook
from tests.kafka.conftest import Flights
from tests.support.transactions import begin_transaction
from tools.trials.kafka import Broker, Record
from tools.trials.waiting import PATIENCE_S, wait_until
from writer_client import EventTimeNoter, KafkaResolved, KafkaTimes, WriterClient
from writer_client.kafka.fields import AHEAD_MS
from writer_client.sending.clock import unix_ms

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000


def hlc(ms: int) -> str:
    """Return a time as CockroachDB writes it."""
    return f"{ms}123456.0000000000"


class Feed:
    """A changefeed: partitions with unordered rows, and resolved records between them."""

    def __init__(self, flights: Flights) -> None:
        self._flights, self._chance, self.time = flights, random.Random(5), NOON

    def rows(self, partitions: int) -> None:
        """Write rows with update times from now on."""
        chance = self._chance
        for _ in range(20):
            row = {"after": {"resolved": "no"}, "updated": hlc(self.time + chance.randrange(3000))}
            self.send(chance.randrange(partitions), row, key="[1]")

    def resolve(self, *partitions: int, ms: int) -> None:
        """Resolve all changes up to `ms` from now."""
        for each in partitions:
            self.send(each, {"resolved": hlc(self.time + ms)})

    def send(self, partition: int, value: object, key: str | None = None) -> None:
        row = (partition, json.dumps(value), 0)
        self._flights.broker.send(self._flights.topic, [row], key)


def read_update_time(record: Record) -> int:
    """Return the update time of a row; other records get a time in the far future."""
    found = json.loads(record.value or b"{}").get("updated", f"{2**62}")
    return int(found.split(".")[0]) // 1_000_000


def test_resolved_records_are_exact_over_growth_and_restarts(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """Time is the least over the partitions; a partition without resolved records holds it."""
    feed, lowers = Feed(flights), []

    def look(client: WriterClient, noter: EventTimeNoter) -> None:
        noter.look()
        lowers.append(client.flush().lower)

    for turn in range(2):
        with flights.observe() as client:
            times = KafkaResolved(*flights.place, known=partial(getattr, client, "position"))
            noter = EventTimeNoter(client, times, delay_ms=0, idle_timeout_ms=0)
            feed.rows(2)
            feed.resolve(0, ms=0)
            look(client, noter)
            feed.resolve(1, ms=0)
            feed.send(1, {"resolved": "yesterday"})
            look(client, noter)
            if turn:
                flights.broker.grow(flights.topic, 3)
                look(client, noter)
            feed.rows(2 + turn)
            feed.resolve(*range(2), ms=0)
            feed.time += 3000
            feed.resolve(*range(2), ms=0)
            look(client, noter)
            if turn:
                feed.resolve(2, ms=0)
                look(client, noter)

    times_of = [lower and lower - NOON for lower in lowers]
    assert times_of == [None, 0, 3000, 3000, 3000, 3000, 3000, 6000]
    assert flights.check_marks(time_of=read_update_time)
    assert len(flights.list_marks()) == 3
    assert times.unusable == 1
    assert "no resolved record in partitions [1]: time waits" in caplog.text
    assert 'is not a resolved record of CockroachDB: b\'{"resolved": "yesterday"}\'' in caplog.text


def test_malformed_changefeed_records_are_skipped_and_counted(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """One is nested too deeply, another resolves the future; later records are noted."""
    feed = Feed(flights)
    flights.broker.create(flights.topic, 1)
    flights.send((0, '{"resolved":' + "[" * 100_000, 0))
    feed.send(0, {"resolved": hlc(unix_ms() + 2 * AHEAD_MS)})
    feed.resolve(0, ms=7)
    with flights.observe() as client:
        times = KafkaResolved(*flights.place)
        EventTimeNoter(client, times, delay_ms=0, idle_timeout_ms=0).look()

        assert (client.flush().lower, times.unusable) == (NOON + 7, 2)
    assert "partition 0, offset 0: the record has no readable time" in caplog.text


# Looks at a topic


def test_committed_ends_stop_at_an_open_transaction(flights: Flights) -> None:
    """They continue when it is ended, or when another producer takes its id over."""
    _hanging = begin_transaction(flights.broker, flights.topic, "a", partition=0)
    flights.send((0, "b", 1000))
    seen = flights.look().ends, flights.look(committed=True).ends
    again = Producer({**flights.broker.config, **flights.transactional_config})
    again.init_transactions(60)  # which aborts what its former self began

    assert seen == ({0: 2, 1: 0}, {0: 0, 1: 0})
    wait_until(lambda: flights.look(committed=True).ends[0] == 3)  # with the marker


def test_offsets_are_found_by_time_above_what_was_deleted(flights: Flights) -> None:
    """Records may be out of order, so the largest time so far counts."""
    flights.send(*((0, "a", ms) for ms in (1000, 3000, 2000, 4000)))
    flights.broker.truncate(flights.topic, {0: 1})
    topic = Topic(*flights.place)

    assert topic.begins() == {0: 1, 1: 0}
    assert topic.offsets_at(3500) == {0: 3, 1: 0}
    assert topic.offsets_at(5000) == {0: 4, 1: 0}
    assert topic.largest_times() == {0: 4000}


# Looks while another broker is away; no later test may need exactly one broker


@pytest.fixture(scope="module")
def second(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a second broker; a test that kills it starts it again."""
    broker.create("led")
    broker.commit("led", "led", {0: 0})  # so that what all groups commit is on the first broker
    with Broker(tmp_path_factory.mktemp("second"), beside=broker) as running:
        yield running


def open_topic(node: int, broker: Broker, name: str) -> Topic:
    """Return a topic whose client takes that node for the controller; KRaft names any."""
    looking = iter(lambda: Topic(broker.config, name), None)
    return next(
        each
        for each in looking
        if each._cluster.admin.list_topics(timeout=PATIENCE_S).controller_id == node
    )


def try_look(topic: Topic) -> TopicLook | None:
    """Look at the topic; returns `None` while its client calls the killed broker."""
    with suppress(Unreachable):
        return topic.look()
    return None


def test_only_the_partition_without_leader_is_unknown(broker: Broker, second: Broker) -> None:
    """The same client sees the end again when the broker is back.

    Looks of observers and of consumer groups fail as a whole.
    """
    broker.create("led", leaders=(1, 2))
    broker.send("led", [(0, "a", 1000), (1, "b", 1000)])
    broker.commit("led", "led", {0: 1, 1: 1})
    topic = open_topic(2, broker, "led")
    topic_id = topic.look().id
    second.kill()
    wait_until(lambda: try_look(topic) == TopicLook(topic_id, {0: 1}, frozenset({1})))
    for call in (KafkaTimes(broker.config, "led"), GroupOffsets(broker.config, "led", "led")):
        with pytest.raises(
            Unreachable, match=r"Kafka topic 'led' has no leader for partitions \[1\]"
        ):
            call()
    second.start()
    wait_until(lambda: try_look(topic) == TopicLook(topic_id, {0: 1, 1: 1}))
    broker.delete("led")


def test_replicas_of_a_topic_are_counted(broker: Broker, second: Broker) -> None:
    assert second.address
    broker.create("replicated", replicas=[[1, 2]])
    wait_until(lambda: Topic(broker.config, "replicated").count_replicas() == 2)
    broker.delete("replicated")
