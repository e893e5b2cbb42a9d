"""Which writers the page names as missing from complete hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.support.browser import Visit
    from tests.support.calls import Calls

HOUR = 3_600_000
TEN = 1_357_034_400_000


def test_complete_hours_name_the_writers_that_are_missing(visit: Visit, seed: Calls) -> None:
    """With the reason; and the ledger says when a writer is missing no longer."""
    seed.make("hourly", returning_writer="exclude")
    for writer in ("shop", "depot", "stock"):
        seed.post("hourly", {"writer": writer})
    for writer in ("shop", "depot", "stock"):
        seed.post("hourly", {"writer": writer, "time": TEN, "position": {}})
    seed.call("DELETE", "/hourly/writers/stock")
    seed.post("hourly", {"writer": "depot", "state": "idle"})
    seed.post("hourly", {"writer": "shop", "time": TEN + HOUR})
    seed.post("hourly", {"writer": "depot", "time": TEN})
    seed.post("hourly", {"writer": "shop", "time": TEN + 2 * HOUR})
    seed.post("hourly", {"writer": "depot", "time": TEN + 3 * HOUR})
    seed.post("hourly", {"writer": "shop", "time": TEN + 3 * HOUR})
    visit.open_stream("hourly")

    rows = visit.rows("Complete hours")
    expect(rows.nth(0)).to_contain_text("\N{EN DASH}")
    expect(rows.nth(1)).to_contain_text("depot (returned late)")
    expect(rows.nth(2)).to_contain_text("stock (removed)")
    expect(visit.region("Ledger")).to_contain_text("no longer missing: depot")
