"""Resolved records of changefeeds, on a real broker."""

import json
import random
from functools import partial

import pytest

from noted_time_extensions.observe import KafkaResolved
from noted_time_extensions.observe.fields import AHEAD_MS
from tests.kafka.conftest import Flights
from tools.trials.kafka import Record
from writer_client import EventTimeNoter, WriterClient
from writer_client.sending.clock import unix_ms

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000


def hlc(ms: int) -> str:
    """Return a time as CockroachDB writes it."""
    return f"{ms}123456.0000000000"


class Feed:
    """A changefeed: partitions with unordered rows, and resolved records between them."""

    def __init__(self, flights: Flights) -> None:
        self._flights = flights
        self._chance = random.Random(5)
        self.time = NOON

    def rows(self, partitions: int) -> None:
        """Write rows with update times from now on."""
        chance = self._chance
        for _ in range(20):
            row = {"after": {"resolved": "no"}, "updated": hlc(self.time + chance.randrange(3000))}
            self.send(chance.randrange(partitions), row, key="[1]")

    def resolve(self, *partitions: int, ms: int) -> None:
        """Resolve all changes up to `ms` from now."""
        for partition in partitions:
            self.send(partition, {"resolved": hlc(self.time + ms)})

    def send(self, partition: int, value: object, key: str | None = None) -> None:
        row = (partition, json.dumps(value), 0)
        self._flights.broker.send(self._flights.topic, [row], key)


def read_update_time(record: Record) -> int:
    """Return the update time of a row; other records get a time in the far future."""
    update_time = json.loads(record.value or b"{}").get("updated", f"{2**62}")
    return int(update_time.split(".")[0]) // 1_000_000


def test_resolved_records_are_exact_over_growth_and_restarts(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """Time is the least over the partitions; a partition without resolved records holds it."""
    feed = Feed(flights)
    lowers = []

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
