"""Observers of records that are hidden in an open transaction."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from noted_time.client import Json
from tests.kafka.conftest import Flights
from tests.support.transactions import begin_transaction
from tools.trials.waiting import wait_until
from writer_client import EventTimeNoter, Seen

NINE = 1_790_000_000_000
IDLE_MS = 60_000


class HiddenRecord(NamedTuple):
    """The answers about a stream whose log had a hidden record.

    `explained` has the answers of `explain`, and `facts` the facts that the observer reported.
    """

    before: int
    explained: list[Json]
    facts: list[Json]


def encode_time(time: int) -> str:
    """Return the value of a record of that time."""
    return f'{{"at": {time}}}'


def observe_hidden_record(flights: Flights, times: Callable[[], Seen]) -> HiddenRecord:
    """Observe a record in a transaction for longer than the idle timeout, then commit it.

    Ends when the stream has the time of the record behind it.
    """
    now = 0
    with flights.observe() as client:
        noter = EventTimeNoter(
            client, times, delay_ms=0, idle_timeout_ms=IDLE_MS, clock=lambda: now
        )

        def look() -> Json:
            noter.look()
            client.flush()
            return flights.served.get(f"{flights.topic}/explain")

        before = NINE - IDLE_MS
        flights.send(*((p, encode_time(before), before) for p in (0, 1)))
        wait_until(lambda: look()["lower"] == before)
        hidden_producer = begin_transaction(
            flights.broker,
            flights.topic,
            encode_time(before + 1),
            partition=0,
            timestamp=before + 1,
        )
        flights.send((1, encode_time(NINE), NINE))
        explanations = []
        for _ in range(3):
            now += IDLE_MS
            explanations.append(look())
        facts = flights.read_writer("observer")["because"]
        hidden_producer.commit_transaction(60)
        wait_until(lambda: times().ends[0] == 3)
        look()

        def ends_idle() -> bool:
            nonlocal now
            now += IDLE_MS
            return bool(look()["lower"] == NINE)

        wait_until(ends_idle)
    return HiddenRecord(before, explanations, facts)


def check_hidden_record(flights: Flights, record: HiddenRecord) -> None:
    """Check that no lower passed the record, and that `explain` named its transaction."""
    sentences = " ".join(record.explained[-1]["sentences"])
    assert [answer["lower"] for answer in record.explained] == [record.before] * 3
    assert "observer: segment 0 has an open transaction" in sentences
    assert [(fact["kind"], fact["segment"], fact["offset"]) for fact in record.facts] == [
        ("open_transaction", 0, 1)
    ]
    assert flights.check_marks()


def check_open_transaction(flights: Flights, looks: Sequence[Callable[[], Seen]]) -> None:
    """Check that all looks name an open transaction, and no longer name it once it is committed."""
    producer = begin_transaction(flights.broker, flights.topic, encode_time(NINE), partition=0)
    open_places = list_places(looks)
    producer.commit_transaction(60)
    wait_until(lambda: looks[0]().ends == {0: 2})
    places = list_places(looks)

    assert open_places == [("open_transaction", 0, 0)] * len(looks)
    assert places == []


def list_places(looks: Sequence[Callable[[], Seen]]) -> list[tuple[str, int, int]]:
    """Return the kind and the place of each fact that the looks name."""
    places: list[tuple[str, int, int]] = []
    for look in looks:
        places += [(fact.kind, fact.segment, fact.offset) for fact in look().because]
    return places
