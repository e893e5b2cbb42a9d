"""Which writers hold the watermark, since when, and what would happen without them."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from playwright.sync_api import expect

from demo.trials.browser import Visit, is_seen_within, moments
from demo.trials.calls import HOUR_MS, Calls
from demo.trials.dashboards import MINUTE_MS, PLAYED_MS, PassingTime, Stalled, wall_ms
from demo.trials.served import Served
from noted_time.values import unix_ms_of
from tests.browser.conftest import Visiting

TEN = 1_357_034_400_000
WITHIN_S = 2.0


def test_stalled_stream_names_its_holder_within_two_seconds(visit: Visit) -> None:
    """From opening the address."""
    assert is_seen_within(visit, "/streams/orders", "lima", WITHIN_S)


def test_holder_its_time_and_effect_show_without_scrolling(visit: Visit, seed: Calls) -> None:
    """On a laptop, as `explain` has it: without the holder it would be the least of the others."""
    row = seed.get("orders/writers", limit=1)["writers"][0]
    without = seed.get("orders/explain")["lower_without"]["lima"]
    why = visit.open_stream("orders")
    expect(why).to_contain_text("lima")

    held, shown = visit.rows("Writers").first, why.locator(".said > p")
    expect(held).to_contain_text(re.compile("holds 1h"))
    expect(shown).to_have_text(
        [re.compile("orders holds at"), re.compile("lima has held it for 1h")]
    )
    assert (row["writer"], without in moments(held)) == ("lima", True)
    assert visit.is_in_sight(held, *shown.all())


def test_answer_changes_when_the_holder_notes(visit: Visit, seed: Calls, stuck: Stalled) -> None:
    """Without anything being pressed: then the stream advances, and no writer holds it."""
    why = visit.open_stream(stuck.name)
    expect(why).to_contain_text("lima")
    seed.post(stuck.name, {"writer": "lima", "time": wall_ms() - 1000, "position": {"0": 800}})

    expect(why).to_contain_text(f"{stuck.name} advances")
    expect(visit.page.locator(".head .pill").first).to_have_text("advancing")
    expect(visit.rows("Writers").filter(has_text="holds")).to_have_count(0)


def test_stream_that_waits_names_the_holder_and_who_noted(visiting: Visiting) -> None:
    """In the list, neutral: the mark of the last half hour is no older than usual."""
    time = PassingTime(PLAYED_MS)
    with Served(clocks=time.clocks()) as controller:
        controller.make("shops", writer_timeout_ms=2 * HOUR_MS)
        controller.post("shops", {"writer": "delhi"}, {"writer": "berlin"})
        for _ in range(3):
            noted = time.now()
            controller.post(
                "shops", *({"writer": each, "time": noted} for each in ("delhi", "berlin"))
            )
            time.passes(HOUR_MS // 2)
        controller.post("shops", {"writer": "berlin", "time": time.now()})
        time.passes(MINUTE_MS)
        visit = visiting(controller.url)
        visit.open()
        row = visit.rows("Streams").first

        expect(row.locator(".pill").first).to_have_class(re.compile(r"^pill ?$"))
        expect(row.locator(".pill").first).to_have_text(re.compile("waits 31m"))
        expect(row).to_contain_text(re.compile(r"delhi.*since .*: berlin noted "))


def test_each_domain_has_its_own_answer(visit: Visit, seed: Calls) -> None:
    """The one that the address names."""
    now = wall_ms()
    seed.make("parcels", domains=["order_time", "ship_time"])
    seed.post("parcels", *({"writer": each, "domain": "order_time"} for each in ("shop", "depot")))
    for writer, domain, ago in (
        ("shop", "order_time", 60),
        ("depot", "order_time", 1),
        ("shop", "ship_time", 1),
        ("depot", "ship_time", 60),
    ):
        noted = {"writer": writer, "domain": domain, "time": now - ago * 60_000}
        seed.post("parcels", noted)

    expect(visit.open_stream("parcels", "order_time")).to_contain_text("shop")
    expect(visit.open_stream("parcels", "ship_time")).to_contain_text("depot")


def test_times_are_in_utc_or_in_the_zone_of_the_browser(visiting: Visiting, stuck: Stalled) -> None:
    """As a switch says, which the page remembers: in Kathmandu, which is 5:45 ahead.

    The zone stands behind the watermark and behind the times of sentences.
    """
    visit = visiting(timezone_id="Asia/Kathmandu")
    why = visit.open_stream(stuck.name)
    at = datetime.fromtimestamp(stuck.held_at / 1000, UTC)
    there = at.astimezone(ZoneInfo("Asia/Kathmandu"))
    big, sentence = why.locator(".big"), why.locator(".said > p").first

    expect(big).to_contain_text(f"{at:%H:%M:%S} UTC")
    expect(sentence).to_contain_text(f"{at:%H:%M:%S} UTC")
    visit.page.get_by_role("group", name="Time zone").get_by_role("button").last.click()
    expect(big).to_contain_text(f"{there:%H:%M:%S} GMT+5:45")
    visit.open_stream(stuck.name)
    expect(sentence).to_contain_text(f"{there:%H:%M:%S} GMT+5:45")
    expect(big.locator("time")).to_have_attribute("title", re.compile(f"{at:%H:%M}.*UTC"))


def test_further_sentences_are_folded(visit: Visit, stuck: Stalled) -> None:
    """Two stand below the writers; the others are there at a click, and stay there."""
    why = visit.open_stream(stuck.name)
    without = why.get_by_text("Without lima it would be at")
    expect(without).to_be_hidden()
    why.get_by_text("More").click()

    expect(without).to_be_visible()


def test_lag_of_years_is_not_shown(visiting: Visiting, empty: Served) -> None:
    """A replay of events of 2013 is not 5,000 days late: neither view says so."""
    empty.make("departures")
    notes = [{"writer": each, "time": TEN, "position": {"0": 1}} for each in ("UA", "DL")]
    empty.post("departures", *notes)
    visit = visiting(empty.url)
    visit.open()
    lag = visit.rows("Streams").first.locator("[data-label=Lag]")
    expect(lag).to_have_text("\N{EN DASH}")

    expect(visit.open_stream("departures")).not_to_contain_text("behind the clock")
    expect(visit.page.get_by_role("img", name="lower and upper")).to_be_visible()
    expect(visit.page.get_by_role("img", name="lag over wall time")).to_have_count(0)


def test_stream_is_found_and_opened_from_the_list(visit: Visit) -> None:
    """By its name; the row shows the holder. The stream that is held the longest comes first.

    Its heading has the focus then, so that a screen reader reads where one is.
    """
    expect(visit.open()).to_have_text("Streams")
    expect(visit.rows("Streams").first).to_contain_text("orders")
    visit.page.get_by_role("searchbox", name="Search streams").fill("orde")
    row = visit.rows("Streams")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("lima")
    row.get_by_role("link").first.click()

    expect(visit.region("Why")).to_contain_text("lima")
    expect(visit.page.get_by_role("heading", level=1)).to_be_focused()


def test_list_counts_streams_by_condition(visit: Visit, stuck: Stalled) -> None:
    """The worst first; a search counts those that it finds."""
    visit.open()
    counts = visit.page.locator("[data-role=conditions]")
    expect(counts).to_have_text(re.compile(r"^(\d+ silent, writers missing)?\d+ holds?"))
    visit.page.get_by_role("searchbox", name="Search streams").fill(stuck.name)

    expect(counts).to_have_text("1 holds")


def test_stream_view_has_every_section(visit: Visit) -> None:
    """Writers, history, readers, segments, ledger and settings, each with something of it."""
    visit.open_stream("orders")

    expect(visit.rows("Writers").first).to_contain_text("lima")
    for name, text in {
        "Readers": "billing",
        "Segments": "sealed",
        "Ledger": "the disk of the depot is full",
        "Settings": "timeout",
    }.items():
        expect(visit.region(name)).to_contain_text(text)
    expect(visit.region("History").locator("svg").first).to_be_visible()


def test_unknown_stream_links_back_to_the_list(visit: Visit) -> None:
    """By a link to those there are; the controller has answered."""
    expect(visit.open("/streams/nowhere")).to_have_text("There is no stream nowhere")
    expect(visit.page.locator("#pulse")).to_have_text("live")
    visit.page.get_by_role("link", name="All streams").click()

    expect(visit.page.get_by_role("heading", level=1)).to_have_text("Streams")


def test_complete_hours_name_missing_writers(visit: Visit, seed: Calls) -> None:
    """With the reason; and the ledger shows when a writer is no longer missing."""

    def post(writer: str, hours: int | None = None, **noted: object) -> None:
        time = {} if hours is None else {"time": TEN + hours * HOUR_MS}
        seed.post("hourly", {"writer": writer, **time, **noted})

    seed.make("hourly", returning_writer="exclude")
    for hours in (None, 0):
        for writer in ("shop", "depot", "stock"):
            post(writer, hours, position={})
    seed.call("DELETE", "/hourly/writers/stock")
    post("depot", state="idle")
    for writer, hours in (("shop", 1), ("depot", 0), ("shop", 2), ("depot", 3), ("shop", 3)):
        post(writer, hours)
    visit.open_stream("hourly")

    rows = visit.rows("Complete hours")
    expect(rows.nth(0)).to_contain_text("\N{EN DASH}")
    expect(rows.nth(1)).to_contain_text("depot (returned late)")
    expect(rows.nth(2)).to_contain_text("stock (removed)")
    expect(visit.region("Ledger")).to_contain_text("no longer missing: depot")


def test_days_are_shown_if_the_marks_are_days_apart(visit: Visit, seed: Calls) -> None:
    """They end where the marks are, which may be midnight in any time zone."""
    seed.make("daily")
    for days in range(4):
        seed.post("daily", {"writer": "shop", "time": TEN + days * 24 * HOUR_MS, "position": {}})
    visit.open_stream("daily")

    rows = visit.rows("Complete days")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("2013-01-03 10:00")
    expect(rows.first).to_contain_text("2013-01-04 10:00")


def test_days_are_those_of_the_chosen_zone(visiting: Visiting, seed: Calls) -> None:
    """In Berlin, the Sunday on which summer time ended had 25 hours."""
    seed.make("local")
    for day in ("26T00:00+02", "27T00:00+02", "28T00:00+01", "29T00:00+01"):
        time = unix_ms_of(datetime.fromisoformat(f"2013-10-{day}:00"))
        seed.post("local", {"writer": "shop", "time": time, "position": {}})
    page = visiting(timezone_id="Europe/Berlin")
    page.open_stream("local")
    page.page.get_by_role("group", name="Time zone").get_by_role("button").last.click()

    rows = page.rows("Complete days")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("2013-10-27 00:00")
    expect(rows.nth(1)).to_contain_text("2013-10-28 00:00")


def test_silent_writer_shows_as_silent_when_nothing_waits_for_it(visit: Visit, seed: Calls) -> None:
    """The leader of a stream that an operator holds for another writer."""
    now = wall_ms()
    seed.make("hushed", writer_timeout_ms=2000)
    seed.post("hushed", {"writer": "oscar"}, {"writer": "mike"})
    seed.call("POST", "/hushed/writers/oscar/hold", {"for_ms": HOUR_MS})
    seed.post("hushed", {"writer": "oscar", "time": now - 60_000}, {"writer": "mike", "time": now})
    visit.open_stream("hushed")

    expect(visit.page.locator('tr[data-key="mike"]')).to_contain_text("silent")
    expect(visit.page.locator('tr[data-key="oscar"]')).to_contain_text("held by an operator until")


def test_complete_hours_show_late_rows(visit: Visit, seed: Calls) -> None:
    """Those after the first mark; the ledger has one line for all rows of an hour."""
    seed.make("tardy")
    for hours in (0, 3):
        seed.post("tardy", {"writer": "pos", "time": TEN + hours * HOUR_MS, "position": {"0": 1}})
    for number in (100, 12):
        late = {"rows": number, "least": TEN + HOUR_MS + number, "most": TEN + HOUR_MS + number}
        seed.post("tardy", {"writer": "pos", "late": late})
    visit.open_stream("tardy")

    rows = visit.rows("Complete hours")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("pos: 112")
    expect(visit.region("Ledger")).to_contain_text("pos wrote 112 late rows")
    expect(visit.region("Why")).to_contain_text("pos wrote 112 rows below the watermark")
