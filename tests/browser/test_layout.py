"""Long names, large numbers and many rows fit on the page and are exact."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visiting, viewport
from tools.trials.browser import LAPTOP, PHONE, Visit, is_seen_within
from tools.trials.calls import HOUR_MS, Calls
from tools.trials.dashboards import crowd, make_many
from tools.trials.served import Served

NAME = "n" * 249

"""The longest possible name, without a place to break it."""

LEAST_WIDTH = 100
"""In a narrower column, in pixels, a name would be a column of letters."""

SCROLL_TO_MIDDLE = "row => scrollBy(0, row.getBoundingClientRect().top - innerHeight / 4)"


def test_long_names_push_no_column_away(visiting: Visiting, empty: Served) -> None:
    """Names of streams, writers and groups, and reasons, are long. Nothing scrolls sideways."""
    empty.make(NAME)
    empty.post(NAME, {"writer": NAME}, {"writer": "short"})
    empty.post(NAME, {"writer": NAME, "time": 1, "position": {"0": 1}})
    empty.call("PUT", f"/{NAME}/reader-groups/{NAME}/readers/r", {"position": {"0": 1}})
    empty.call(
        "POST", f"/{NAME}/writers/short/suspension", {"for_ms": HOUR_MS}, comment="why " * 99
    )
    visit = visiting(empty.url)
    for view, table in (("/", "Streams"), (f"/streams/{NAME}", "Writers"), ("", "Readers")):
        if view:
            visit.open(view)
        row = visit.rows(table).first
        expect(row).to_be_visible()
        row.evaluate(SCROLL_TO_MIDDLE)
        assert visit.is_in_sight(row.locator("td:visible").last), table
        if table == "Writers":
            visit.manage()
            row.evaluate(SCROLL_TO_MIDDLE)

        assert visit.is_in_sight(row.locator("td").last), table
        name_box = row.locator("td.name").bounding_box()
        assert name_box, table
        assert name_box["width"] > LEAST_WIDTH, table
        wide = visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, table


@pytest.mark.parametrize("size", [PHONE, LAPTOP])
def test_buttons_on_top_jump_to_the_sections(visiting: Visiting, size: tuple[int, int]) -> None:
    """With many writers, the other sections are far below."""
    visit = visiting(viewport=viewport(size))
    visit.open_stream("orders")
    expect(visit.region("Settings")).to_contain_text("timeout")
    jumps = visit.page.get_by_role("navigation", name="Sections")
    jumps.get_by_role("button", name="Ledger", exact=True).click()

    expect(visit.region("Ledger")).to_be_in_viewport()
    expect(visit.region("Ledger")).to_be_focused()


END = 2**63 - 2

"""The last time that can be noted."""


def test_first_and_last_possible_time_are_shown_exactly(visit: Visit, seed: Calls) -> None:
    """The chart's range exceeds int64."""
    seed.make("ends", max_time_ahead_ms=None)
    for time in (-END, END):
        largest = max(time, 1 - END)
        seed.post("ends", {"writer": "probe", "time": time, "max_time": largest, "position": {}})
        expect(visit.open_stream("ends")).to_contain_text(str(time))
        expect(visit.region("Writers")).to_contain_text(str(time))

    for time in (END, 1 - END):
        visit.page.locator(".chart").press("ArrowLeft")
        expect(visit.page.locator(".tip")).to_contain_text(str(time))
    visit.open()
    expect(visit.rows("Streams").filter(has_text="ends")).to_contain_text(str(END))


QUICKLY_S = 5.0

"""On an idle machine it takes a fraction of a second."""

MOST_ROWS = 200


@pytest.fixture(scope="module")
def large() -> Iterator[Served]:
    """A controller with a stream of 10,000 writers, and 400 others."""
    with Served() as running:
        crowd(running, "crowd")
        make_many(running, 400)
        yield running


def test_10000_writers_are_paged_scrolled_and_searched(visiting: Visiting, large: Served) -> None:
    """The table has pages, and its last row can be scrolled to. It opens quickly."""
    visit = visiting(large.url)
    assert is_seen_within(visit, "/streams/crowd", "w-00000", QUICKLY_S)
    rows = visit.rows("Writers")
    region = visit.region("Writers")
    rows.last.scroll_into_view_if_needed()
    assert rows.count() <= MOST_ROWS
    assert visit.is_in_sight(rows.last)

    region.get_by_role("button", name="Next").click()
    expect(rows.first).not_to_contain_text("w-00000")
    region.get_by_role("button", name="Previous").click()
    expect(rows.first).to_contain_text("w-00000")
    visit.page.get_by_role("searchbox", name="Search writers").fill("w-09876")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("w-09876")


def test_many_streams_are_paged_and_searched(visiting: Visiting, large: Served) -> None:
    """The longest wait comes first. A search begins with the first page."""
    visit = visiting(large.url)
    assert is_seen_within(visit, "/", "crowd", QUICKLY_S)
    rows = visit.rows("Streams")
    assert rows.count() <= MOST_ROWS

    visit.button("Next").click()
    expect(rows.filter(has_text="crowd")).to_have_count(0)
    visit.page.get_by_role("searchbox", name="Search streams").fill("s-0377")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("s-0377")


SIZES = [PHONE, (768, 1024), LAPTOP, (1600, 900)]


@pytest.mark.parametrize("size", SIZES)
def test_watermark_and_reason_come_before_writers(
    visiting: Visiting, size: tuple[int, int]
) -> None:
    """The buttons on top have the same order."""
    visit = visiting(viewport=viewport(size))
    why = visit.open_stream("orders")
    jumps = visit.page.get_by_role("navigation", name="Sections").get_by_role("button")
    expect(jumps).to_contain_text(["Why", "Writers"])
    reason = why.locator(".said > p").first
    expect(reason).to_contain_text("it waits for lima")
    reason_box = reason.bounding_box()
    writers_box = visit.region("Writers").bounding_box()

    assert reason_box
    assert writers_box
    assert reason_box["y"] + reason_box["height"] <= writers_box["y"]
    assert visit.is_in_sight(why.locator(".big"), reason)


TARGETS = "a:not(.skip), button, summary, select, input:not([type=checkbox]), label:has(input), dfn"

SMALL_TARGETS = """all => all.filter(target => target.checkVisibility())
    .map(target => [target.innerText || target.ariaLabel, target.getBoundingClientRect()])
    .filter(([, {width, height}]) => width < 24 || height < 24)
    .map(([name, {width, height}]) => `${name}: ${width} x ${height}`)"""


@pytest.mark.parametrize("size", [PHONE, LAPTOP])
def test_targets_are_24_pixels_high_and_wide(visiting: Visiting, size: tuple[int, int]) -> None:
    """A label includes its box to tick."""
    visit = visiting(viewport=viewport(size))
    for view in ("/", "/streams/ordesr", "/streams/orders"):
        visit.open(view)
        expect(visit.page.locator("main a").first).to_be_visible()

        assert visit.page.locator(TARGETS).evaluate_all(SMALL_TARGETS) == [], view
    visit.manage()
    assert visit.page.locator(TARGETS).evaluate_all(SMALL_TARGETS) == []
    visit.button("Remove lima…").click()
    visit.dialog().wait_for_dry_run()
    assert visit.page.locator(TARGETS).evaluate_all(SMALL_TARGETS) == []


LINES = "all => all.map(part => part.getClientRects().length)"

NEIGHBOURS = """zone => [...zone.parentElement.children]
    .filter(part => part !== zone && part.checkVisibility())
    .map(part => part.getBoundingClientRect())
    .filter(box => box.top < zone.getBoundingClientRect().bottom
        && box.bottom > zone.getBoundingClientRect().top)
    .length"""


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("width", [320, PHONE[0]])
def test_zone_is_never_alone_on_a_line(
    visiting: Visiting, empty: Served, width: int, zone: str
) -> None:
    """It stays beside the clock of its time, and beside another part of the bar on top."""
    empty.make("old")
    empty.post("old", {"writer": "a", "time": 1_357_034_220_000}, {"writer": "b"})
    empty.post("old", {"writer": "b", "time": 1_357_034_220_000})
    visit = visiting(empty.url, viewport=viewport((width, 800)), timezone_id=zone)
    why = visit.open_stream("old")
    expect(why.locator(".big")).to_contain_text("2013-01-01 09:57:00 UTC")
    clocks = why.locator("time .n").evaluate_all(LINES)

    assert clocks == [1] * len(clocks)
    assert visit.page.locator("#zones").evaluate(NEIGHBOURS) > 0


COLUMNS = """table => [...new Set([...table.querySelectorAll("td:not(.strip, .act)")]
    .filter(cell => cell.offsetWidth).map(cell => cell.getBoundingClientRect().left))]"""
NARROW = (
    "all => all.filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.innerText)"
)


def test_tables_have_two_straight_columns_on_a_phone(visiting: Visiting) -> None:
    """Each column is as wide as its text."""
    visit = visiting(viewport=viewport(PHONE))
    for view, tables in (
        ("/", ["Streams"]),
        ("/streams/orders", ["Writers", "Segments", "Ledger"]),
    ):
        visit.open(view)
        for name in tables:
            table = visit.page.get_by_role("table", name=name, exact=True)
            expect(table).to_be_visible()

            assert len(table.evaluate(COLUMNS)) == 2, name
            assert table.locator("td").evaluate_all(NARROW) == [], name
