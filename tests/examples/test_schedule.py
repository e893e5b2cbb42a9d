from collections.abc import Sequence
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from examples.flights.data import HOUR_MS, Flights
from examples.flights.schedule import Step, hourly_batches, steps
from examples.flights.simulation import noted_time
from examples.flights.ways import delays
from tests.examples.flown import days_of_flights, flight, flown

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
