"""Times and offsets beyond 2^53, where JavaScript's numbers end, are shown and sent unchanged."""

import time

from playwright.sync_api import expect

from tests.support.browser import Visit
from tests.support.calls import Calls

END = 2**63 - 2
"""The last time that can be noted."""


def test_a_stream_of_nanoseconds_is_shown_to_the_nanosecond(visit: Visit, seed: Calls) -> None:
    """A writer with such a clock neither stops the page nor is it rounded: lists, bars, charts."""
    now = time.time_ns() | 1
    seed.make("nanoseconds", max_time_ahead_ms=None)
    for noted in (now - 100, now):
        seed.post(
            "nanoseconds", {"writer": "probe", "time": noted, "max_time": noted + 2, "position": {}}
        )

    expect(visit.open_stream("nanoseconds")).to_contain_text(str(now))
    expect(visit.region("Writers")).to_contain_text(str(now))
    visit.page.locator(".chart").press("ArrowLeft")
    expect(visit.page.locator(".tip")).to_contain_text(str(now + 2))
    visit.open()
    expect(visit.rows("Streams").filter(has_text="nanoseconds")).to_contain_text(str(now))


def test_times_at_both_ends_are_shown_as_they_are(visit: Visit, seed: Calls) -> None:
    """Also on one chart, whose range is more than an int64 holds."""
    seed.make("ends", max_time_ahead_ms=None)
    for noted in (-END, END):
        seed.post("ends", {"writer": "probe", "time": noted, "position": {}})
        expect(visit.open_stream("ends")).to_contain_text(str(noted))

    visit.page.locator(".chart").press("ArrowLeft")
    visit.page.locator(".chart").press("ArrowLeft")
    expect(visit.page.locator(".tip")).to_contain_text(str(-END))


def test_a_stream_is_truncated_at_the_offset_that_was_typed(visit: Visit, seed: Calls) -> None:
    """To the last digit: neither the dry run nor the ledger rounds it."""
    offset = 2**53 + 1
    seed.make("offsets")
    for noted in (0, 1):
        position = {"0": offset - 1 + noted}
        seed.post("offsets", {"writer": "probe", "time": noted, "position": position})
    visit.open_stream("offsets")
    expect(visit.region("Segments")).to_contain_text(str(offset))
    visit.button("Truncate…").click()
    dialog = visit.dialog("Truncate offsets")
    dialog.element.get_by_label("Where may readers begin?").fill(f"0:{offset}")
    expect(dialog.dry_run).to_contain_text("would be dropped")
    dialog.act("Truncate", "test")
    expect(dialog.element).to_be_hidden()

    assert seed.get("offsets/changes")["changes"][0]["is"]["cut"] == {"0": offset}
    expect(visit.region("Ledger")).to_contain_text(f"truncated at 0:{offset}")
