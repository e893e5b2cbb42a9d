"""The writers that hold back the watermark, since when, and the effect of their removal."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import Visiting
from tools.trials.browser import Visit, is_seen_within, moments
from tools.trials.calls import HOUR_MS, Calls
from tools.trials.dashboards import MINUTE_MS, PLAYED_MS, PassingTime, Stalled
from tools.trials.served import Served

WITHIN_S = 2.0


def test_stalled_stream_names_its_holder_within_two_seconds(visit: Visit) -> None:
    assert is_seen_within(visit, "/streams/orders", "lima", WITHIN_S)


def test_holder_its_time_and_effect_show_without_scrolling(visit: Visit, seed: Calls) -> None:
    """Without that writer, the watermark would be the least of the others, as in `explain`."""
    row = seed.get("orders/writers", limit=1)["writers"][0]
    without = seed.get("orders/explain")["lower_without"]["lima"]
    why = visit.open_stream("orders")
    expect(why).to_contain_text("lima")

    row_part = visit.rows("Writers").first
    sentences = why.locator(".said > p")
    expect(row_part).to_contain_text(re.compile("holds back 1h"))
    expect(sentences).to_have_text(
        [re.compile("orders is held back at"), re.compile("lima has held it back for 1h")]
    )
    assert (row["writer"], without in moments(row_part)) == ("lima", True)
    assert visit.is_in_sight(row_part, *sentences.all())


def test_stream_that_waits_names_the_holder_and_who_noted(visiting: Visiting) -> None:
    """The list shows no alarm, because the last mark is not older than usual."""
    time = PassingTime(PLAYED_MS)
    with Served(clocks=time.clocks()) as controller:
        controller.make("shops", writer_timeout_ms=2 * HOUR_MS)
        controller.post("shops", {"writer": "delhi"}, {"writer": "berlin"})
        for _ in range(3):
            noted_at = time.now()
            controller.post(
                "shops", *({"writer": writer, "time": noted_at} for writer in ("delhi", "berlin"))
            )
            time.passes(HOUR_MS // 2)
        controller.post("shops", {"writer": "berlin", "time": time.now()})
        time.passes(MINUTE_MS)
        visit = visiting(controller.url)
        visit.open()
        row = visit.rows("Streams").first

        expect(row.locator(".pill").first).to_have_class(re.compile(r"^pill ?$"))
        expect(row.locator(".pill").first).to_have_text(re.compile("waiting 31m"))
        expect(row).to_contain_text(re.compile(r"delhi.*since .*: berlin noted "))


def test_further_sentences_are_folded(visit: Visit, stuck: Stalled) -> None:
    """Two sentences are always visible, and a click shows the others."""
    why = visit.open_stream(stuck.name)
    without = why.get_by_text("Without lima it would be at")
    expect(without).to_be_hidden()
    why.get_by_text("More").click()

    expect(without).to_be_visible()
