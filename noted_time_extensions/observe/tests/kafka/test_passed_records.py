"""Observers of records that are hidden or ahead of the clock, on a real broker."""

from functools import partial

import pytest

from noted_time.values import LogFact
from noted_time_extensions.observe import KafkaFields, KafkaResolved
from noted_time_extensions.observe.event_times import TimeOf, get_timestamp
from tests.kafka.conftest import Flights
from tests.support.hidden_records import (
    NINE,
    check_hidden_record,
    check_open_transaction,
    encode_time,
    observe_hidden_record,
)
from tests.support.transactions import begin_transaction
from tools.trials.waiting import wait_until

pytestmark = pytest.mark.acceptance

MINUTE = 60_000
STREAM = {"max_time_ahead_ms": None}

AHEAD = LogFact("unreadable", 1, 1, NINE, count=1)


@pytest.mark.parametrize("field", ["at", get_timestamp])
def test_partition_with_a_hidden_record_is_not_idle(flights: Flights, field: str | TimeOf) -> None:
    """No lower passes the record, and `explain` names its transaction."""
    times = KafkaFields(*flights.place, field, start="earliest", clock=lambda: NINE)
    record = observe_hidden_record(flights, times)

    check_hidden_record(flights, record)


def test_every_observer_of_records_names_a_transaction(flights: Flights) -> None:
    flights.broker.create(flights.topic, 1, {"message.timestamp.type": "LogAppendTime"})

    check_open_transaction(
        flights, [KafkaFields(*flights.place, "at"), KafkaResolved(*flights.place)]
    )


def test_record_ahead_of_the_clock_is_named(flights: Flights) -> None:
    """Observers name its offset and key until the clock passes it, and skip records far ahead."""
    now = NINE
    soon = NINE + 3 * MINUTE
    far_time = NINE + 6 * MINUTE
    times = KafkaFields(*flights.place, "at", start="earliest", clock=lambda: now)
    for partition, time, key in (
        (0, NINE, "a1"),
        (0, soon, "d07"),
        (1, NINE, "a1"),
        (1, far_time, "e01"),
    ):
        flights.broker.send(flights.topic, [(partition, encode_time(time), time)], key)
    first_look = times()
    now = NINE + 4 * MINUTE
    later_look = times()

    assert first_look.because == (AHEAD, LogFact("moved_by", 0, 1, soon, "d07"))
    assert (first_look.newest, times.unusable, later_look.because) == (
        {0: soon, 1: NINE},
        1,
        (AHEAD,),
    )


@pytest.mark.parametrize(
    ("value", "tombstones", "offset"),
    [("no JSON", 20, 0), (encode_time(NINE + 6 * MINUTE), 1, 0), ('{"at": 1}', 1100, 1101)],
)
def test_restarted_observer_still_skips_the_record_ahead(
    flights: Flights, value: str, tombstones: int, offset: int
) -> None:
    """Markers and tombstones may follow it."""
    now = NINE
    end = tombstones + 2
    producer = begin_transaction(flights.broker, flights.topic, value, partition=0)
    for _ in range(tombstones):
        producer.produce(flights.topic, None, "k", 0)
    producer.commit_transaction(60)
    wait_until(lambda: flights.look(committed=True).ends[0] == end)
    make_fields = partial(KafkaFields, *flights.place, "at")
    restart = partial(make_fields, known=lambda: {0: end}, clock=lambda: now)
    times = restart()
    first = times()
    second_look = restart(passes={0: offset})()
    now += 7 * MINUTE

    held_times = {} if tombstones == 1 else {0: None}
    assert first.because == (LogFact("unreadable", 0, offset, NINE, count=1),)
    assert (first.newest, second_look.newest, times().newest) == ({0: None}, {}, held_times)
    assert (times.unusable, times.without_value) == (0, 0)
