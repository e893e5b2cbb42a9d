from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from examples.flights import backlog
from examples.flights.backlog import WITH, WITHOUT, clocks
from examples.flights.catch_up import Batch, batches_of
from examples.flights.data import Flights
from examples.flights.stage import Stage
from tests.examples.flown import days_of_flights


def progress(second: int, took_ms: int, segments: dict[str, int], **end: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return Spark's progress report of a batch; the last mark is at 900."""
    lower = end.pop("lower")
    marks = {"default": {"lower": lower}}
    source = {
        "endOffset": {"segments": segments, "marks": marks, **end},
        "latestOffset": {"last_lower": 900},
    }
    instant = f"2013-01-01T00:00:0{second}.000Z"
    times = {"triggerExecution": took_ms}
    return {"timestamp": instant, "durationMs": times, "sources": [source]}


def test_a_batch_is_as_far_behind_as_its_mark_is_behind_the_last_one() -> None:
    """Before all marks it is at the beginning of the stream; the flag is that of the offset log."""
    reports = [
        progress(1, 1500, {"0": 4, "1": 1}, lower=None, backlog=True),
        progress(3, 200, {"0": 6, "1": 1}, lower=900, backlog=False),
        progress(4, 100, {"0": 6, "1": 1}, lower=900),
    ]

    batches = batches_of(reports, begin=100)

    assert batches == [
        Batch(1.5, 1500, rows=5, behind_ms=800, backlog=True),
        Batch(2.2, 200, rows=2, behind_ms=0, backlog=False),
        Batch(3.1, 100, rows=0, behind_ms=0, backlog=None),
    ]


@given(days_of_flights)
def test_all_flights_have_landed_at_the_last_clock(flights: Flights) -> None:
    """And the clocks rise; without that the last window would stay open, and the query wait."""
    past, live = clocks(flights)

    rising = [*past, *live]
    assert rising == sorted(set(rising))
    assert rising[-1] > flights.landed[-1].landing


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_query_that_catches_up_counts_the_same_in_large_batches(morning: Stage) -> None:
    """A real controller, carriers that keep writing, and Spark; one of the two has a flag."""
    result = backlog.play(morning)

    assert all([*backlog.opening(morning.flights), *result.meaning])
    ours, other = result.figures[WITH], result.figures[WITHOUT]
    flights = len(morning.flights.landed)
    assert (result.broken, ours["counted"], other["counted"]) == ((), flights, flights)
    assert ours["batches_until_caught_up"] < other["batches_until_caught_up"]
    assert (ours["flag_until_seconds"] > 0, other["flag_until_seconds"]) == (True, 0)
