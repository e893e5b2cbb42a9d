"""A topic moves from observed to noted, producer by producer; the judge sees every record."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random

import pytest

from demo.trials.kafka import Broker
from noted_time import Fenced
from tests.support.kafka_judge import judged
from tests.support.served import Served
from writer_client import EventTimeNoter, KafkaNotedProducer, KafkaTimes, WriterClient

pytestmark = pytest.mark.acceptance

NOON, SECOND, ROWS = 1_357_041_600_000, 1000, 20
DELAY_MS = 5 * SECOND
LATE_MS = 3 * DELAY_MS


class Shop:
    """A producer of records that come up to `DELAY_MS` out of order.

    Once it notes they come up to `LATE_MS` out of order, but for what was noted before.
    """

    def __init__(self, broker: Broker, served: Served, topic: str, name: str) -> None:
        self.name = name
        self._broker, self._url, self._topic = broker, served.url, topic
        self._chance = Random(name)
        self._noted: KafkaNotedProducer | None = None
        self._since = 0

    def note(self, now: int) -> None:
        """Begin to note: start again as a producer that does."""
        self._since = now - DELAY_MS
        self._noted = KafkaNotedProducer(self._broker.config, self._topic, self._url, self.name)

    def sell(self, now: int, *partitions: int) -> None:
        """Write the records of a while up to `now`, and note if it does."""
        noted, chance = self._noted, self._chance
        first = max(now - (LATE_MS if noted else DELAY_MS), self._since)
        rows = [
            (chance.choice(partitions or (0, 1)), chance.randrange(first, now)) for _ in range(ROWS)
        ]
        if noted is None:
            self._broker.send(self._topic, [(at, self.name, time) for at, time in rows])
            return
        for partition, time in rows:
            noted.produce(value=self.name, event_time=time, partition=partition)
        noted.note_time(first)
        noted.flush(60)

    def close(self) -> None:
        """End the process."""
        if self._noted is not None:
            self._noted.end(30)


@pytest.fixture
def shops(broker: Broker, served: Served, topic: str) -> Iterator[tuple[Shop, Shop]]:
    """Return two producers that do not note."""
    both = Shop(broker, served, topic, "berlin"), Shop(broker, served, topic, "lima")
    yield both
    for each in both:
        each.close()


@contextmanager
def observed(
    broker: Broker, served: Served, topic: str, name: str, *partitions: int
) -> Iterator[EventTimeNoter]:
    """Yield an observer by the timestamps of these partitions, or of all."""
    with suppress(Fenced), WriterClient(served.url, topic, name) as client:
        times = KafkaTimes(broker.config, topic, partitions=partitions or None)
        yield EventTimeNoter(client, times, delay_ms=DELAY_MS, idle_timeout_ms=0)


def look(observer: EventTimeNoter) -> None:
    """Have it look, and note durably."""
    observer.look()
    observer.client.flush(60)


def states(served: Served, topic: str) -> dict[str, str]:
    """Return the state of each writer."""
    return {name: found["state"] for name, found in served.writers(topic).items()}


def test_producers_move_from_observed_to_noted_one_by_one(
    broker: Broker, served: Served, topic: str, shops: tuple[Shop, Shop]
) -> None:
    """Whoever notes is safe from then on, however late its records come.

    The observer is finished too early. Since the stream expects both producers by then, it waits
    for the one that does not note yet; its first note covers what it wrote unobserved.
    """
    (berlin, lima), held = shops, []
    with observed(broker, served, topic, "observer") as observer:
        for now in range(NOON + SECOND, NOON + 31 * SECOND, SECOND):
            match (now - NOON) // SECOND:
                case 11:
                    berlin.note(now)
                case 21:
                    served.create(topic, expected_writers=["berlin", "lima"])
                    served.post(topic, {"writer": "observer", "state": "finished"})
                case 26:
                    held = [
                        each["writer"] for each in served.get(f"{topic}/explain")["waiting_for"]
                    ]
                    lima.note(now)
            berlin.sell(now)
            lima.sell(now)
            if now <= NOON + 20 * SECOND:
                look(observer)

    verdict = judged(broker, topic, controller=served)
    assert (verdict.records, verdict.violations, held) == (30 * 2 * ROWS, (), ["lima"])
    assert served.lower(topic) == NOON + 30 * SECOND - LATE_MS
    assert states(served, topic) == {"berlin": "live", "lima": "live", "observer": "finished"}


def test_a_producer_takes_the_name_over_from_the_observer_of_its_own_partition(
    broker: Broker, served: Served, topic: str, shops: tuple[Shop, Shop]
) -> None:
    """The stream has the same two writers all along, and time waits for them in between."""
    berlin, lima = shops
    berlin.note(NOON)
    with observed(broker, served, topic, "lima", 1) as observer:
        for now in range(NOON + SECOND, NOON + 31 * SECOND, SECOND):
            if now == NOON + 11 * SECOND:
                lima.note(now)
            berlin.sell(now, 0)
            lima.sell(now, 1)
            if now <= NOON + 10 * SECOND:
                look(observer)
        with pytest.raises(Fenced):
            look(observer)

    verdict = judged(broker, topic, controller=served)
    assert (verdict.records, verdict.violations) == (30 * 2 * ROWS, ())
    assert served.lower(topic) == NOON + 30 * SECOND - LATE_MS
    assert states(served, topic) == {"berlin": "live", "lima": "live"}
