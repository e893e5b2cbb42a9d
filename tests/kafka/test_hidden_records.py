"""Observers of open transactions and of records ahead of the clock, on a real broker."""

from collections.abc import Callable
from functools import partial

import pytest

from noted_time.client import Json
from noted_time.values import LogFact
from tests.kafka.conftest import Flights
from tests.support.transactions import begin_transaction
from tools.trials.waiting import wait_until
from writer_client import EventTimeNoter, KafkaEnds, KafkaFields, KafkaResolved, KafkaTimes, Seen
from writer_client.kafka.event_times import get_timestamp

pytestmark = pytest.mark.acceptance

NINE, MINUTE = 1_790_000_000_000, 60_000
IDLE_MS = MINUTE
STREAM = {"max_time_ahead_ms": None}


AHEAD = LogFact("unreadable", 1, 1, NINE, count=1)


WATCHED: dict[str, Callable[..., Callable[[], Seen]]] = {
    "a field": partial(KafkaFields, field="at", start="earliest"),
    "all timestamps": partial(KafkaFields, field=get_timestamp, start="earliest"),
    "newest timestamps": KafkaTimes,
}


def encode(time: int) -> str:
    """Return the value of a record of that time."""
    return f'{{"at": {time}}}'


@pytest.mark.parametrize("watch", WATCHED.values(), ids=WATCHED)
def test_partition_with_an_open_transaction_is_not_idle(
    flights: Flights, watch: Callable[..., Callable[[], Seen]]
) -> None:
    """No lower passes its hidden record, and `explain` names the transaction."""
    times, now = watch(*flights.place, clock=lambda: NINE), 0
    with flights.observe() as client:
        noter = EventTimeNoter(
            client, times, delay_ms=0, idle_timeout_ms=IDLE_MS, clock=lambda: now
        )

        def look() -> Json:
            noter.look()
            client.flush()
            return flights.served.get(f"{flights.topic}/explain")

        before = NINE - MINUTE
        flights.send(*((p, encode(before), before) for p in (0, 1)))
        wait_until(lambda: look()["lower"] == before)
        hidden = begin_transaction(
            flights.broker, flights.topic, encode(before + 1), partition=0, timestamp=before + 1
        )
        flights.send((1, encode(NINE), NINE))
        held = []
        for _ in range(3):
            now += IDLE_MS
            held.append(look())
        facts = flights.read_writer("observer")["because"]
        hidden.commit_transaction(60)
        wait_until(lambda: times().ends[0] == 3)
        look()

        def ends_idle() -> bool:
            nonlocal now
            now += IDLE_MS
            return bool(look()["lower"] == NINE)

        wait_until(ends_idle)

    assert [each["lower"] for each in held] == [before] * 3
    assert "observer: segment 0 has an open transaction" in " ".join(held[-1]["sentences"])
    assert [(each["kind"], each["segment"], each["offset"]) for each in facts] == [
        ("open_transaction", 0, 1)
    ]
    assert flights.check_marks()


def test_every_observer_names_an_open_transaction(flights: Flights) -> None:
    broker, topic = flights.broker, flights.topic
    broker.create(topic, 1, {"message.timestamp.type": "LogAppendTime"})
    fields: Callable[..., KafkaFields] = partial(KafkaFields, field="at")
    looks = [kind(*flights.place) for kind in (KafkaEnds, KafkaTimes, fields, KafkaResolved)]
    producer = begin_transaction(broker, topic, encode(NINE), partition=0)
    while_open = [[(f.kind, f.segment, f.offset) for f in look().because] for look in looks]
    producer.commit_transaction(60)
    wait_until(lambda: looks[0]().ends == {0: 2})
    afterwards = [list(look().because) for look in looks]

    assert while_open == [[("open_transaction", 0, 0)]] * len(looks)
    assert afterwards == [[]] * len(looks)


def test_record_ahead_of_the_clock_is_named(flights: Flights) -> None:
    """Observers name its offset and key until the clock passes it, and skip records far ahead."""
    now, soon, far = NINE, NINE + 3 * MINUTE, NINE + 6 * MINUTE
    times = KafkaFields(*flights.place, "at", start="earliest", clock=lambda: now)
    for partition, time, key in (0, NINE, "a1"), (0, soon, "d07"), (1, NINE, "a1"), (1, far, "e01"):
        flights.broker.send(flights.topic, [(partition, encode(time), time)], key)
    seen = times()
    now = NINE + 4 * MINUTE
    later = times()

    assert seen.because == (AHEAD, LogFact("moved_by", 0, 1, soon, "d07"))
    assert (seen.newest, times.unusable, later.because) == ({0: soon, 1: NINE}, 1, (AHEAD,))


@pytest.mark.parametrize(
    ("value", "tombstones", "offset"),
    [("no JSON", 20, 0), (encode(NINE + 6 * MINUTE), 1, 0), ('{"at": 1}', 1100, 1101)],
)
def test_restarted_observer_still_skips_the_record_ahead(
    flights: Flights, value: str, tombstones: int, offset: int
) -> None:
    """Markers and tombstones may follow it."""
    now, end = NINE, tombstones + 2
    producer = begin_transaction(flights.broker, flights.topic, value, partition=0)
    for _ in range(tombstones):
        producer.produce(flights.topic, None, "k", 0)
    producer.commit_transaction(60)
    wait_until(lambda: flights.look(committed=True).ends[0] == end)
    observed = partial(KafkaFields, *flights.place, "at")
    restart = partial(observed, known=lambda: {0: end}, clock=lambda: now)
    times = restart()
    first, passed = times(), restart(passes={0: offset})()
    now += 7 * MINUTE

    held = {} if tombstones == 1 else {0: None}
    assert first.because == (LogFact("unreadable", 0, offset, NINE, count=1),)
    assert (first.newest, passed.newest, times().newest) == ({0: None}, {}, held)
    assert (times.unusable, times.without_value) == (0, 0)
