"""The lines and the labels in the charts of a stream."""

import re
from itertools import pairwise
from typing import Any

from playwright.sync_api import Locator, Route, expect

from tools.trials.browser import Visit
from tools.trials.calls import HOUR_MS
from tools.trials.dashboards import MINUTE_MS

LAG = "lag over wall time"
VALUES = "watermark and upper bound over wall time"
NOON = 1_357_041_600_000
MIDDLE = 81.0
"""The height of a level line."""


def read_points(line: Locator) -> list[tuple[float, float]]:
    """Return the corners of a line that is drawn."""
    path = line.get_attribute("d") or ""
    corners = [corner.split() for corner in re.split("[ML]", path) if corner]
    return [(float(x), float(y)) for x, y in corners]


def read_heights(line: Locator) -> set[float]:
    return {y for _, y in read_points(line)}


def find_steps(line: Locator) -> set[float]:
    """Return each x where the line goes straight up or down."""
    return {
        point[0]
        for point, next_point in pairwise(read_points(line))
        if point[0] == next_point[0] and point[1] != next_point[1]
    }


def draw_chart(
    visit: Visit, *marks: tuple[int, int], to: int, upper_distance: int = 0
) -> tuple[Locator, Locator]:
    """Show a stream with these marks (moment, time) up to a moment, and return both charts.

    Each upper is `upper_distance` the lower.
    """

    def answer_with_marks(route: Route) -> None:
        answer: dict[str, Any] = route.fetch().json()
        points = [
            {
                "at": time,
                "seq": seq,
                "lower": lower,
                "upper": lower + upper_distance,
                "lag_ms": time - lower,
            }
            | {"marks": 1, "upper_is_bound": True, "excluded": [], "excluded_marks": 0}
            for seq, (time, lower) in enumerate(marks, start=1)
        ]
        shown_fields = {"from_at": marks[0][0], "to_at": to, "points": points, "lower_before": None}
        route.fulfill(json=answer | shown_fields)

    visit.page.unroute_all()
    visit.page.route(re.compile("/v1/.*/history"), answer_with_marks)
    visit.open_stream("orders")
    plots = [visit.page.get_by_role("img", name=name) for name in (VALUES, LAG)]
    for plot in plots:
        expect(plot).to_be_visible()
    return plots[0], plots[1]


def read_labels(plot: Locator) -> list[str]:
    """Return the labels of the values."""
    return plot.locator("text[text-anchor=end]").all_text_contents()


def test_axis_of_lag_has_at_least_two_labels(visit: Visit) -> None:
    for lag in (3, 4_001, 4_999, 70_000, 3 * HOUR_MS + 1, 40 * 24 * HOUR_MS):
        _, plot = draw_chart(visit, (NOON, NOON - lag), to=NOON)

        assert len(set(read_labels(plot))) >= 2, lag


def test_lag_falls_when_the_lower_rises(visit: Visit) -> None:
    """It falls straight down at the same moment, for example if the watermark passed a writer."""
    visit.open_stream("orders")
    plot = visit.page.get_by_role("img", name=LAG)
    expect(plot).to_be_visible()

    lower = visit.page.locator(".chart path.lower")
    assert find_steps(lower) <= find_steps(plot.locator("path.lag")), "no step where lower steps"


def test_constant_watermark_is_a_line_inside_the_frame(visit: Visit) -> None:
    """A line on the lower edge of the frame would look like the axis of an empty chart."""
    times, _ = draw_chart(visit, (NOON, NOON - 960 * HOUR_MS), to=NOON + MINUTE_MS)
    heights = read_heights(times.locator("path.lower"))
    labels = read_labels(times)
    times, _ = draw_chart(visit, (NOON, NOON), to=NOON + MINUTE_MS, upper_distance=HOUR_MS)
    lower = times.locator("path.lower").first
    upper = times.locator("path.upper").first
    expect(lower).to_be_attached()

    assert (heights, len(labels)) == ({MIDDLE}, 1)
    assert read_heights(lower) == {133.0}
    assert read_heights(upper) == {29.0}
