"""The flights of the demo: data, schedule and simulation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.data import HOUR_MS, MINUTE_MS, Flight, Flights, read_flights
from demo.schedule import steps
from demo.simulation import noted_time, own_watermark

flights_in_minutes = st.builds(
    lambda departure, in_the_air, carrier, origin: Flight(
        (departure + in_the_air) * MINUTE_MS, departure * MINUTE_MS, carrier, origin
    ),
    st.integers(0, 2000),
    st.integers(1, 700),
    st.sampled_from(("UA", "DL", "HA")),
    st.sampled_from(("EWR", "JFK")),
)
days_of_flights = st.lists(flights_in_minutes, min_size=1, max_size=40).map(
    lambda flights: Flights(tuple(sorted(flights)))
)


@given(days_of_flights)
def test_noted_time_loses_nothing(flights: Flights) -> None:
    """Whatever the disorder, and every hour is given out."""
    outcome = noted_time(flights)

    assert (outcome.lost, len(outcome.latencies_ms)) == (0, len(flights.window_ends))


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


@given(days_of_flights)
def test_every_note_is_true(flights: Flights) -> None:
    """What departed below a carrier's note has landed by the step that notes it."""
    broken = [
        (step.clock, each)
        for step in steps(flights)
        for each in flights.landed
        if each.departure < step.notes.get(each.carrier, 0) and each.landing > step.clock
    ]

    assert broken == []


@given(days_of_flights)
def test_the_steps_are_where_the_simulation_closes_hours(flights: Flights) -> None:
    """Stopping nowhere else, the replay gives the latencies of one that stops everywhere."""
    lowers = [(step.clock, min(step.notes.values())) for step in steps(flights)]

    closed = [next(c for c, lower in lowers if end <= lower) - end for end in flights.window_ends]
    found = noted_time(flights)
    assert (found.lost, found.latencies_ms) == (0, tuple(sorted(closed)))


def test_the_year_has_all_its_flights() -> None:
    """Of the 336,776 rows in the package, each is an event or counted apart."""
    year = read_flights()

    assert (len(year.landed), year.cancelled, year.untimed) == (327_346, 8_255, 1_175)
