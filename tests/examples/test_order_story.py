from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from examples.flights.data import read_flights
from examples.flights.stories import order
from examples.flights.stories.order import keyed
from tests.support.flown import flight, flown
from tests.support.stories import played

if TYPE_CHECKING:
    from examples.flights.stories.stage import Stage


def test_a_log_by_key_gets_a_segment_in_the_middle() -> None:
    """The fourth carrier goes to the first segment before, and to the added one after."""
    flights = flown(*(flight(0, 10 * n, carrier) for n, carrier in enumerate("ABCD")))
    place = keyed(flights)

    first, last = flights.landed[0].landing, flights.landed[-1].landing
    assert [place("D", clock, {}) for clock in (first, last)] == [0, 3]


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_log_with_a_late_segment_is_more_orderly_by_time(
    monkeypatch: pytest.MonkeyPatch, morning: Stage
) -> None:
    """A whole day, with a real controller and Spark; no row is lost in either order."""
    monkeypatch.setattr(order, "ROWS_PER_BATCH", 120)
    told = played(order, replace(morning, flights=read_flights(months=1, days=1)))

    disorder = [told.figures[each]["mean_disorder_hours"] for each in ("share", "time")]
    assert (told.broken, disorder[0] > disorder[1]) == ((), True)
