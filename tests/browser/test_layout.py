"""What is shown fits: long names, labels of axes."""

import re
from itertools import pairwise
from typing import Any

from playwright.sync_api import Locator, Route, expect

from tests.browser.conftest import Visiting
from tests.support.browser import Visit
from tests.support.calls import HOUR_MS, Calls
from tests.support.dashboards import MINUTE_MS, wall_ms
from tests.support.served import Served

NAME = "n" * 249
"""The longest possible name, without a place to break it."""

LAG = "lag over wall time"


def points_of(line: Locator) -> list[tuple[float, float]]:
    """Return the corners of a line that is drawn."""
    path = line.get_attribute("d") or ""
    corners = [corner.split() for corner in re.split("[ML]", path) if corner]
    return [(float(x), float(y)) for x, y in corners]


def upright(line: Locator) -> set[float]:
    """Return the x at which the line goes straight up or down."""
    return {
        here[0]
        for here, there in pairwise(points_of(line))
        if here[0] == there[0] and here[1] != there[1]
    }


def test_long_names_push_no_column_away(visiting: Visiting, empty: Served) -> None:
    """Of streams in the list, of writers and groups beside the others; nothing scrolls sideways."""
    empty.make(NAME)
    empty.post(NAME, {"writer": NAME}, {"writer": "short"})
    empty.post(NAME, {"writer": NAME, "time": 1, "position": {"0": 1}})
    empty.call("PUT", f"/{NAME}/reader-groups/{NAME}/readers/r", {"position": {"0": 1}})
    visit = visiting(empty.url)
    for view, table in (("/", "Streams"), (f"/streams/{NAME}", "Writers"), ("", "Readers")):
        if view:
            visit.open(view)
        row = visit.rows(table).first
        expect(row).to_be_visible()
        row.scroll_into_view_if_needed()

        assert visit.in_sight(row.locator("td").last), table
        wide = visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, table


def test_an_axis_of_lag_has_at_least_two_labels(visit: Visit) -> None:
    """However long the lag is."""
    lags = [3, 4_001, 4_999, 70_000, 3 * HOUR_MS + 1, 40 * 24 * HOUR_MS]

    def lagging(route: Route) -> None:
        answer: dict[str, Any] = route.fetch().json()
        at, lag_ms = answer["to"], lags[0]
        point = {"at": at, "seq": 1, "lower": at - lag_ms, "upper": at - lag_ms, "marks": 1}
        point |= {"upper_is_bound": True, "lag_ms": lag_ms, "excluded": [], "excluded_marks": 0}
        route.fulfill(json=answer | {"points": [point], "before": None})

    visit.page.route(re.compile("/v1/.*/history"), lagging)
    while lags:
        visit.open_stream("orders")
        plot = visit.page.get_by_role("img", name=LAG)
        expect(plot).to_be_visible()

        labels = plot.locator("text[text-anchor=end]").all_text_contents()
        assert len(set(labels)) >= 2, lags.pop(0)
        lags.pop(0)


def test_the_lag_falls_when_the_lower_rises(visit: Visit) -> None:
    """At the same moment, straight down: for example when it advanced without a writer."""
    visit.open_stream("orders")
    plot = visit.page.get_by_role("img", name=LAG)
    expect(plot).to_be_visible()

    lower = visit.page.locator(".chart path.lower")
    assert upright(lower) <= upright(plot.locator("path.lag")), "no step where lower steps"


def test_a_stream_whose_writers_are_all_excluded_is_an_alarm(
    visiting: Visiting, empty: Served
) -> None:
    """Not quiet: it comes first in the list, and both views show what is wrong."""
    for name in ("a", "b", "c"):
        empty.make(name, writer_timeout_ms=10 if name == "b" else HOUR_MS)
        empty.post(name, {"writer": "w", "time": wall_ms() - MINUTE_MS, "position": {"0": 1}})
    visit = visiting(empty.url)
    visit.open()
    expect(visit.rows("Streams").first).to_contain_text("all writers excluded")
    expect(visit.rows("Streams").first.locator(".pill.bad").first).to_be_visible()

    expect(visit.open_stream("b")).to_contain_text("has not finished is excluded")


def test_a_writer_that_lives_and_cannot_note_says_why(visiting: Visiting, empty: Served) -> None:
    """In its row, and in the sentences; moments are those of the reader's zone."""
    empty.make("held")
    held = "1 event was not delivered since 2013-01-01T12:04:00Z"
    empty.post("held", {"writer": "w"}, {"writer": "w", "held": held})
    visit = visiting(empty.url)
    page = visit.open_stream("held")

    expect(visit.rows("Writers").first).to_contain_text("alive, but 1 event was not delivered")
    expect(visit.rows("Writers").first.locator(".hint")).not_to_contain_text("Z")
    expect(page).to_contain_text("w is alive, but 1 event was not delivered since")


def test_an_idle_observer_one_that_ended_and_one_excluded_are_told_apart(
    visit: Visit, seed: Calls
) -> None:
    """The page has the sentences of `explain`."""
    seed.make(name := "told-apart")
    seed.post(name, *({"writer": f"o-{n}", "position": {n: 1}} for n in range(3)))
    seed.post(name, {"writer": "o-1", "timeout_ms": 10})
    for _ in range(3):
        seed.post(name, {"writer": "o-0", "state": "idle"}, {"writer": "o-1", "state": "idle"})
    seed.call("DELETE", f"/{name}/writers/o-2")
    why = visit.open_stream(name)

    for says in ("with a live process: o-0", "that fell silent: o-1", "Excluded at present: o-2"):
        expect(why).to_contain_text(says)
