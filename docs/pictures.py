"""The pictures of the dashboard: `./run python docs/pictures.py [DIRECTORY]`; needs Chromium."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import structlog
from playwright.sync_api import expect

from tools.trials.browser import LAPTOP, NO_BROWSER, Visit, chromium, find_chromium
from tools.trials.dashboards import PLAYED_MS, PassingTime, Story
from tools.trials.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TARGET = Path(__file__).resolve().parent / "pictures"
ZONE = "Europe/Berlin"


def draw(target: Path) -> None:
    """Write a stalled stream in light and in dark, and the list of streams."""
    time = PassingTime(PLAYED_MS)
    with Served(clocks=time.clocks()) as served:
        Story(served, time).play()
        with chromium() as browser:
            take(browser, served.url, "/streams/orders", "light", target / "dashboard-light.png")
            take(browser, served.url, "/streams/orders", "dark", target / "dashboard-dark.png")
            take(browser, served.url, "/", "light", target / "dashboard-streams.png")


def take(
    browser: Browser, url: str, view: str, scheme: Literal["light", "dark"], file: Path
) -> None:
    """Write what a laptop shows of a view once the answers are there."""
    width, height = LAPTOP
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        reduced_motion="reduce",
        timezone_id=ZONE,
        locale="en-GB",
    )
    visit = Visit(context, url)
    visit.open(view)
    expect(visit.page.locator("main")).to_contain_text("lima")
    visit.page.wait_for_load_state("networkidle")
    visit.page.screenshot(path=file)
    visit.check()
    context.close()
    print(file)


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if find_chromium() is None:
        sys.exit(NO_BROWSER)
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
