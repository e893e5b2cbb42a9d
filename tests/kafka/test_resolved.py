"""Time by the resolved records of a changefeed in a real topic."""

import json
import random

import pytest

from tests.support.kafka import Broker, Record
from tests.support.kafka_judge import judged
from tests.support.served import Served
from writer_client import EventTimeNoter, KafkaResolved, WriterClient
from writer_client.kafka_fields import AHEAD_MS
from writer_client.posting import unix_ms

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000


def hlc(ms: int) -> str:
    """Return a time as CockroachDB writes it."""
    return f"{ms}123456.0000000000"


class Feed:
    """A changefeed: each partition has its rows in no order, and now and then what is resolved."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker, self._topic, self._chance = broker, topic, random.Random(5)
        self.time = NOON

    def rows(self, partitions: int) -> None:
        """Write rows that were changed from now on."""
        chance = self._chance
        for _ in range(20):
            row = {"after": {"resolved": "no"}, "updated": hlc(self.time + chance.randrange(3000))}
            self.send(chance.randrange(partitions), row, key="[1]")

    def resolve(self, *partitions: int, ms: int) -> None:
        """Resolve what was changed until so many ms later."""
        for each in partitions:
            self.send(each, {"resolved": hlc(self.time + ms)})

    def send(self, partition: int, value: object, key: str | None = None) -> None:
        """Write a record."""
        self._broker.send(self._topic, [(partition, json.dumps(value), 0)], key)


def updated(record: Record) -> int:
    """Return when a row was changed; other records are of no time."""
    found = json.loads(record.value or b"{}").get("updated", f"{2**62}")
    return int(found.split(".")[0]) // 1_000_000


def test_resolved_records_are_noted_exactly_over_growth_and_restarts(
    broker: Broker, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """The least over the partitions; one without a resolved record yet holds."""
    topic, lowers = "resolved", []
    broker.create(topic, 2)
    served.make(topic)
    feed = Feed(broker, topic)

    def look(client: WriterClient, noter: EventTimeNoter) -> None:
        noter.look()
        lowers.append(client.flush().lower)

    for turn in range(2):
        with WriterClient(served.url, topic, "observer") as client:
            times = KafkaResolved(broker.config, topic, known=lambda: client.position)
            noter = EventTimeNoter(client, times, delay_ms=0, idle_timeout_ms=0)
            feed.rows(2)
            feed.resolve(0, ms=0)
            look(client, noter)
            feed.resolve(1, ms=0)
            feed.send(1, {"resolved": "yesterday"})
            look(client, noter)
            if turn:
                broker.grow(topic, 3)
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
    verdict = judged(broker, topic, controller=served, time_of=updated)
    assert (verdict.marks, verdict.violations) == (3, ())
    assert times.unusable == 1
    assert "no resolved record in partitions [1]: time holds" in caplog.text
    assert 'is not a resolved record of CockroachDB: b\'{"resolved": "yesterday"}\'' in caplog.text


def test_poison_in_a_changefeed_is_passed_over_and_counted(
    broker: Broker, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """A record nested too deeply, and one that resolves the future: what follows is noted."""
    broker.create(topic := "resolved-poison", 1)
    served.make(topic)
    feed = Feed(broker, topic)
    broker.send(topic, [(0, '{"resolved":' + "[" * 100_000, 0)])
    feed.send(0, {"resolved": hlc(unix_ms() + 2 * AHEAD_MS)})
    feed.resolve(0, ms=7)
    with WriterClient(served.url, topic, "observer") as client:
        times = KafkaResolved(broker.config, topic)
        EventTimeNoter(client, times, delay_ms=0, idle_timeout_ms=0).look()

        assert (client.flush().lower, times.unusable) == (NOON + 7, 2)
    assert "partition 0, offset 0: the record has no time that can be read" in caplog.text


def test_only_the_partitions_that_a_process_has_are_read(broker: Broker) -> None:
    """From the offset that was noted of each; one that it gets back is read from there again."""
    broker.create(topic := "resolved-among", 2)
    feed, among = Feed(broker, topic), {0: 0}
    look = KafkaResolved(broker.config, topic, among=lambda: among)
    feed.resolve(0, 1, ms=1000)
    feed.resolve(0, ms=2000)
    found = [look()]
    among |= {1: 0}
    del among[0]
    found.append(look())
    among |= {0: 1}
    found.append(look())

    assert [(ends, times) for ends, times, _ in found] == [
        ({0: 1}, {0: NOON + 2000}),
        ({1: 0}, {1: NOON + 1000}),
        ({0: 1, 1: 0}, {0: NOON + 2000, 1: NOON + 1000}),
    ]
