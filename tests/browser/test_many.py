"""Ten thousand writers, a thousand streams."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visiting
from tests.support.browser import is_seen_within
from tests.support.dashboards import crowd, many
from tests.support.served import Served

QUICKLY_S = 5.0
"""On an idle machine it takes a fraction of a second."""

MOST_ROWS = 200


@pytest.fixture(scope="module")
def large() -> Iterator[Served]:
    """A controller with a stream of 10,000 writers, and 1,000 others."""
    with Served() as running:
        crowd(running, "crowd")
        many(running)
        yield running


def test_10000_writers_are_paged_scrolled_and_searched(visiting: Visiting, large: Served) -> None:
    """A page of them at a time, whose end can be scrolled to; it opens quickly."""
    visit = visiting(large.url)
    assert is_seen_within(visit, "/streams/crowd", "w-00000", QUICKLY_S)
    rows, region = visit.rows("Writers"), visit.region("Writers")
    rows.last.scroll_into_view_if_needed()
    assert rows.count() <= MOST_ROWS
    assert visit.in_sight(rows.last)

    region.get_by_role("button", name="Next").click()
    expect(rows.first).not_to_contain_text("w-00000")
    region.get_by_role("button", name="Previous").click()
    expect(rows.first).to_contain_text("w-00000")
    visit.page.get_by_role("searchbox", name="Search writers").fill("w-09876")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("w-09876")


def test_1000_streams_are_paged_and_searched(visiting: Visiting, large: Served) -> None:
    """The one held for longest comes first; a search begins with the first page."""
    visit = visiting(large.url)
    assert is_seen_within(visit, "/", "crowd", QUICKLY_S)
    rows = visit.rows("Streams")
    assert rows.count() <= MOST_ROWS

    visit.button("Next").click()
    expect(rows.filter(has_text="crowd")).to_have_count(0)
    visit.page.get_by_role("searchbox", name="Search streams").fill("s-0777")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("s-0777")
