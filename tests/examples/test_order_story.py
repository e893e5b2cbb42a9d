from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from examples.flights.data import HOUR_MS, read_flights
from examples.flights.stories import order
from examples.flights.stories.order import Reading, keyed, picture
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


def test_no_label_of_the_picture_lies_across_a_line() -> None:
    """Of a month in 60 batches, whose last segment begins in the middle."""
    hours = {
        segment: [n * HOUR_MS for n in range(360 * (segment > 2), 720)] for segment in range(4)
    }
    by_share = [{s: len(hours[s]) * n // 60 for s in hours} for n in range(61)]
    by_time = [{s: max(0, 12 * n - 720 + len(hours[s])) for s in hours} for n in range(61)]
    figure = picture(
        [Reading("share", by_share, hours, 1, 0), Reading("time", by_time, hours, 1, 0)]
    )
    figure.draw_without_rendering()

    labels = [label.get_window_extent() for axes in figure.axes for label in axes.texts]
    assert all(figure.bbox.x0 < each.x0 < each.x1 < figure.bbox.x1 for each in labels)
    crossed = [
        (axes.get_title("left"), label.get_text())
        for axes in figure.axes
        for label in axes.texts
        for line in axes.lines
        if line.get_transform()
        .transform_path(line.get_path())
        .intersects_bbox(label.get_window_extent(), filled=False)
    ]
    assert crossed == []


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
