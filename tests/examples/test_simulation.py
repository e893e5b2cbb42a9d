"""The flights of the examples: data, schedule, simulation and replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.flights.data import HOUR_MS, Flight, Flights, read_flights
from examples.flights.demo import cuts_of
from examples.flights.replay import STREAM, Replayed, at_work, replay
from examples.flights.schedule import steps
from examples.flights.simulation import least_delay_without_loss, noted_time, own_watermark
from examples.flights.ways import delays
from tests.examples.flown import days_of_flights, flight, flown
from tests.support.served import Served

# The long flight departs in the first hour and lands in the sixth, when others have gone by.


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


def test_each_hours_mark_covers_its_flights(tmp_path: Path, served: Served) -> None:
    """When the log reaches the cut, the replay's clock is at the landing of the last of them."""
    replayed = replayed_to(tmp_path, served)

    cuts = cuts_of(served.url, FLIGHTS.window_ends)
    minutes = [replayed.clock_at(cut, end) // 60_000 for end, cut in sorted(cuts.items())]
    assert minutes == [330, 330, 330]


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a controller in a thread."""
    with Served() as controller:
        yield controller
