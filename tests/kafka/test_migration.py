"""A topic moves from an observer to noting producers, one by one."""

from random import Random

import pytest

from tests.kafka.conftest import Flights
from writer_client import EventTimeNoter, KafkaNotedProducer, KafkaTimes

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000
SECOND = 1000
ROWS = 20
DELAY_MS = 5 * SECOND
LATE_MS = 3 * DELAY_MS


class Shop:
    """A producer of records that come up to `DELAY_MS` out of order.

    Once it notes they may be `LATE_MS` out of order, but not below its notes.
    """

    def __init__(self, flights: Flights, name: str) -> None:
        self._flights = flights
        self._name = name
        self._chance = Random(name)
        self._noted: KafkaNotedProducer | None = None
        self._since = 0

    def note(self, now: int) -> None:
        """Restart as a noting producer."""
        self._since = now - DELAY_MS
        self._noted = self._flights.start(self._name)

    def sell(self, now: int) -> None:
        """Write records up to `now`, and note if the shop notes."""
        noted_producer = self._noted
        chance = self._chance
        first = max(now - (LATE_MS if noted_producer else DELAY_MS), self._since)
        rows = [(chance.choice((0, 1)), chance.randrange(first, now)) for _ in range(ROWS)]
        if noted_producer is None:
            self._flights.send(*((partition, self._name, time) for partition, time in rows))
            return
        for partition, time in rows:
            noted_producer.produce(value=self._name, event_time=time, partition=partition)
        noted_producer.note_time(first)
        noted_producer.flush(60)


def test_producers_move_from_observed_to_noted_one_by_one(flights: Flights) -> None:
    """A noting producer may be late as it likes.

    The observer is finished too early. Since the stream expects both producers by then, it waits
    for the second one; its first note covers its records since then.
    """
    served = flights.served
    topic = flights.topic
    holding_writers = list[str]()
    berlin, lima = (Shop(flights, name) for name in ("berlin", "lima"))
    with flights.observe() as client:
        times = KafkaTimes(*flights.place)
        observer = EventTimeNoter(client, times, delay_ms=DELAY_MS, idle_timeout_ms=0)
        for now in range(NOON + SECOND, NOON + 31 * SECOND, SECOND):
            match (now - NOON) // SECOND:
                case 11:
                    berlin.note(now)
                case 21:
                    served.create(topic, expected_writers=["berlin", "lima"])
                    served.post(topic, {"writer": "observer", "state": "finished"})
                case 26:
                    waits = served.get(f"{topic}/explain")["waiting_for"]
                    holding_writers = [wait["writer"] for wait in waits]
                    lima.note(now)
            berlin.sell(now)
            lima.sell(now)
            if now <= NOON + 20 * SECOND:
                observer.look()
                client.flush(60)
        states = {name: row["state"] for name, row in flights.read_writers().items()}

    assert (flights.check_marks(), holding_writers) == (30 * 2 * ROWS, ["lima"])
    assert flights.lower == NOON + 30 * SECOND - LATE_MS
    assert states == {"berlin": "live", "lima": "live", "observer": "finished"}
