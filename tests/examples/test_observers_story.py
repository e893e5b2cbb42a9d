from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from examples.flights.data import HOUR_MS
from examples.flights.stories import observers
from examples.flights.stories.observers import looks, outage_of, simulated, with_outage
from tests.support.flown import flight, flown
from tests.support.stories import played

if TYPE_CHECKING:
    from examples.flights.stories.stage import Stage

CUT_OFF = flown(
    flight(0, 30, origin="EWR"),
    flight(10, 40, origin="JFK"),
    flight(20, 50, origin="LGA"),
    flight(200, 230, origin="LGA"),
    flight(220, 250, origin="EWR"),
    flight(300, 330, origin="EWR"),
    flight(310, 340, origin="JFK"),
    flight(500, 630, origin="JFK"),
)


def test_rows_of_an_outage_become_known_at_its_end() -> None:
    """Nothing else is moved."""
    outage = outage_of(CUT_OFF)
    moved = {
        after.departure: after.landing
        for after in with_outage(CUT_OFF).landed
        if after not in CUT_OFF.landed
    }

    assert moved == {CUT_OFF.landed[3].departure: outage.end}


def test_the_maximum_loses_the_rows_of_an_outage_and_the_minimum_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At a delay at which neither loses any without the outage."""
    monkeypatch.setattr("examples.flights.stories.observers.ROWS_PER_LOOK", 1)
    flights = with_outage(CUT_OFF)

    lost = [simulated(flights, HOUR_MS // 2, choose).lost for choose in (max, min)]
    assert (lost, simulated(CUT_OFF, HOUR_MS // 2, max).lost) == ([1, 0], 0)


def test_looks_miss_no_row_and_take_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last look finds what is left."""
    monkeypatch.setattr("examples.flights.stories.observers.ROWS_PER_LOOK", 3)
    seen = [row for _, rows in looks(CUT_OFF) for known in rows.values() for row in known]

    assert sorted(seen) == list(CUT_OFF.landed)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_loses_what_the_simulation_says(
    monkeypatch: pytest.MonkeyPatch, morning: Stage
) -> None:
    """A real controller, observers of a real log, and Spark: at each delay, by both methods."""
    monkeypatch.setattr(observers, "DELAY_HOURS", (1, 2))
    monkeypatch.setattr(observers, "ROWS_PER_LOOK", 20)
    told = played(observers, morning)

    assert told.broken == ()
    assert all(each["own_lost"] > each["observed_lost"] for each in told.figures["delays"])
