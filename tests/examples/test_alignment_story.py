from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from examples.flights.stories import alignment
from examples.flights.stories.alignment import (
    DEPARTURES,
    LANDINGS,
    WITH,
    WITHOUT,
    Batch,
    Joined,
    batches_of,
    events_of,
    wrongly_joined,
)
from tests.support.flown import flight, flown, minutes
from tests.support.stories import played

if TYPE_CHECKING:
    from examples.flights.stories.stage import Stage

FLIGHTS = flown(flight(10, 330), flight(20, 50), flight(70, 100))
BATCHES = (Batch(9, 3, 70, 500), Batch(9, 7, 40, 500))


def joined(*found: tuple[int, int]) -> Joined:
    """Return a join that found these flights."""
    return Joined(WITH, BATCHES, Counter(found))


def progress(departures: int | None, landings: int | None, rows: int) -> dict[str, Any]:
    """Return what Spark tells of a batch."""
    lowers = {DEPARTURES: departures, LANDINGS: landings}
    sources = [
        {"endOffset": {"noted_log": stream, "marks": {"default": {"lower": lower}}}}
        for stream, lower in lowers.items()
    ]
    state = [{"numRowsTotal": rows}]
    times = {"triggerExecution": 500}
    return {"sources": sources, "stateOperators": state, "durationMs": times}


def test_a_flight_is_in_both_streams_under_one_number() -> None:
    """In the order of the departures in one, of the landings in the other."""
    events = events_of(FLIGHTS)

    departures, landings = minutes(10, 20, 70), minutes(50, 100, 330)
    assert events == {
        DEPARTURES: list(zip(departures, (2, 0, 1), strict=True)),
        LANDINGS: list(zip(landings, (0, 1, 2), strict=True)),
    }


def test_flights_that_are_missing_or_joined_twice_count() -> None:
    """Flight 2 is missing, flight 0 is there twice, flight 1 was in the air for another time."""
    short, long = minutes(30, 320)

    wrong = [
        wrongly_joined(joined((0, short), (1, short), (2, long)), FLIGHTS),
        wrongly_joined(joined((0, short), (0, short), (1, long)), FLIGHTS),
    ]

    assert wrong == [0, 4]


def test_a_batch_before_all_marks_of_a_side_tells_nothing() -> None:
    """How far it has come is not known."""
    batches = batches_of([progress(9, None, 50), progress(9, 3, 70), progress(9, 7, 40)])

    assert batches == list(BATCHES)


def test_the_most_of_a_join_is_that_of_any_batch() -> None:
    """Of its rows, and of how far the departures were ahead; the times of all count."""
    one = joined()

    assert (one.most_state_rows, one.most_ahead_ms, one.took_s) == (70, 6, 1.0)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_join_of_real_flights_keeps_less_when_aligned(morning: Stage) -> None:
    """A real controller and Spark: each flight is joined once, whether or not it is aligned."""
    told = played(alignment, morning)

    free, aligned = told.figures[WITHOUT], told.figures[WITH]
    flights = len(morning.flights.landed)
    assert (told.broken, free["joined"], aligned["joined"]) == ((), flights, flights)
    assert aligned["most_hours_ahead"] < free["most_hours_ahead"]
    assert aligned["most_state_rows"] < free["most_state_rows"]
