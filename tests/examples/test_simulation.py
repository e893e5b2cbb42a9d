import pytest
from hypothesis import given

from examples.flights.data import HOUR_MS, Flights, read_flights
from examples.flights.measurement import Outcome
from examples.flights.simulation import least_delay_without_loss, noted_time, own_watermark
from tests.examples.flown import days_of_flights, flight, flown, minutes

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
