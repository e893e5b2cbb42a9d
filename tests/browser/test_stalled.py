"""The writers that hold the watermark, since when, and the effect of their removal."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
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
    assert is_seen_within(visit, "/streams/orders", "lima", WITHIN_S)


def test_holder_its_time_and_effect_show_without_scrolling(visit: Visit, seed: Calls) -> None:
    """Without its holder, the watermark would be the least of the others, as in `explain`."""
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
    """No button is pressed."""
    why = visit.open_stream(stuck.name)
    expect(why).to_contain_text("lima")
    seed.post(stuck.name, {"writer": "lima", "time": wall_ms() - 1000, "position": {"0": 800}})

    expect(why).to_contain_text(f"{stuck.name} advances")
    expect(visit.page.locator(".head .pill").first).to_have_text("advancing")
    expect(visit.rows("Writers").filter(has_text="holds")).to_have_count(0)


def test_stream_that_waits_names_the_holder_and_who_noted(visiting: Visiting) -> None:
    """The list shows no alarm, because the last mark is not older than usual."""
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


def test_times_are_in_utc_or_in_the_zone_of_the_browser(visiting: Visiting, stuck: Stalled) -> None:
    """A switch selects the zone, and the page remembers it. Kathmandu is 5:45 ahead of UTC.

    Both the watermark and the sentences name the zone.
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
    """Two sentences are always visible, and a click shows the others."""
    why = visit.open_stream(stuck.name)
    without = why.get_by_text("Without lima it would be at")
    expect(without).to_be_hidden()
    why.get_by_text("More").click()

    expect(without).to_be_visible()


def test_lag_of_years_is_not_shown(visiting: Visiting, empty: Served) -> None:
    """A replay of events of 2013 is not 5,000 days late."""
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


def test_list_counts_streams_by_condition(visit: Visit, stuck: Stalled) -> None:
    """The most urgent condition comes first. A search counts the streams it finds."""
    visit.open()
    counts = visit.page.locator("[data-role=conditions]")
    expect(counts).to_have_text(re.compile(r"^(\d+ silent, writers missing)?\d+ holds?"))
    visit.page.get_by_role("searchbox", name="Search streams").fill(stuck.name)

    expect(counts).to_have_text("1 holds")


def test_complete_hours_name_missing_writers(visit: Visit, seed: Calls) -> None:
    """The reason is shown, and the ledger says when a writer is not missing any more."""

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


@pytest.mark.parametrize(
    ("zone", "days", "times"),
    [
        ("UTC", ["26T10:00Z", "27T10:00Z", "28T10:00Z"], ["27 10:00", "28 10:00"]),
        ("Europe/Berlin", ["26T22:00Z", "27T23:00Z", "28T23:00Z"], ["28 00:00", "29 00:00"]),
    ],
)
def test_complete_days_end_where_the_marks_of_their_zone_are(
    visiting: Visiting, seed: Calls, zone: str, days: list[str], times: list[str]
) -> None:
    """In Berlin, the Sunday on which summer time ended had 25 hours."""
    stream = f"days-{days[0]}".replace(":", "-")
    seed.make(stream)
    for day in ("25" + days[0][2:], *days):
        time = unix_ms_of(datetime.fromisoformat(f"2013-10-{day}"))
        seed.post(stream, {"writer": "shop", "time": time, "position": {}})
    visit = visiting(timezone_id=zone)
    visit.open_stream(stream)
    visit.page.get_by_role("group", name="Time zone").get_by_role("button").last.click()

    rows = visit.rows("Complete days")
    expect(rows).to_have_count(3)
    for each in times:
        expect(rows.first).to_contain_text(f"2013-10-{each}")


def test_silent_writer_shows_as_silent_when_nothing_waits_for_it(visit: Visit, seed: Calls) -> None:
    """An operator holds the stream for another writer."""
    now = wall_ms()
    seed.make("hushed", writer_timeout_ms=2000)
    seed.post("hushed", {"writer": "oscar"}, {"writer": "mike"})
    seed.call("POST", "/hushed/writers/oscar/hold", {"for_ms": HOUR_MS})
    seed.post("hushed", {"writer": "oscar", "time": now - 60_000}, {"writer": "mike", "time": now})
    visit.open_stream("hushed")

    expect(visit.page.locator('tr[data-key="mike"]')).to_contain_text("silent")
    expect(visit.page.locator('tr[data-key="oscar"]')).to_contain_text("held by an operator until")


def test_complete_hours_show_late_rows(visit: Visit, seed: Calls) -> None:
    """The ledger has one line for all late rows of an hour."""
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
