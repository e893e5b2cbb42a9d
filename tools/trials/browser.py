"""Chromium, and pages of the dashboard.

The browser is Debian's, driven by playwright. Playwright's thread has a running event loop, so
tests with a loop must come after it has ended.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tools.trials.waiting import PATIENCE_S, slowdown

NO_BROWSER = "no Chromium: apt-get install chromium, or set CHROMIUM to the path of one"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # no other host has an address
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
LAPTOP = (1280, 800)
PHONE = (390, 844)
PATIENCE_MS = 1000 * PATIENCE_S
POLL_MS = 1500
ANSWERED = "Failed to load resource: the server responded"
"""How Chromium's console starts its report of a 4xx or 5xx, which the page has to handle."""

AXE = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"


def find_chromium() -> str | None:
    """Return the path of a Chromium, first `CHROMIUM` of the environment."""
    chromium_name = os.environ.get("CHROMIUM")
    paths = (shutil.which(name) for name in ([chromium_name] if chromium_name else NAMES))
    return next(filter(None, paths), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser with an empty profile."""
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MS)
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=list(ARGUMENTS), timeout=60_000
        )
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page of the dashboard at `url`, with its faults and requested hosts.

    `faults` are errors of its script and violations of the content policy, `hosts` all requested
    hosts.
    """

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.faults: list[str] = []
        self.hosts: set[str] = set()
        self.context = context
        context.set_default_timeout(PATIENCE_MS)
        self.page: Page = context.new_page()
        self.page.on("request", self._record_request)
        self.page.on("console", self._record_message)
        self.page.on("pageerror", lambda error: self.faults.append(f"{error.name}: {error}"))

    def _record_request(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.hosts.add(urlsplit(request.url).netloc)

    def _record_message(self, message: ConsoleMessage) -> None:
        ours = not message.text.startswith((ANSWERED, "Failed to load resource: net::"))
        if message.type == "error" and ours:
            self.faults.append(message.text)

    @property
    def own(self) -> str:
        """The host of the controller that is visited."""
        return urlsplit(self.url).netloc

    def check(self) -> None:
        """Fail if the page did anything unexpected."""
        assert not self.faults, self.faults
        assert self.hosts <= {self.own}, self.hosts

    def open(self, view: str = "/") -> Locator:
        """Open a view by its address, and return its heading."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/#{view}", wait_until="commit")
        return self.page.get_by_role("heading", level=1)

    def open_stream(self, stream: str, domain: str | None = None) -> Locator:
        """Open a stream, and return the region that explains it."""
        suffix = "" if domain is None else f"?domain={quote(domain)}"
        expect(self.open(f"/streams/{quote(stream)}{suffix}")).to_contain_text(stream)
        return self.region("Why")

    def next_answers(self) -> None:
        """Have the page ask again now; its clock has to be installed."""
        with self.page.expect_response(lambda answer: "/v1/" in answer.url):
            self.page.clock.run_for(POLL_MS)

    def region(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    def rows(self, table: str) -> Locator:
        """Return the rows of that table, without its head."""
        named_table = self.page.get_by_role("table", name=table, exact=True)
        return named_table.get_by_role("row").filter(has=self.page.locator("td"))

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def manage(self) -> None:
        """Open the menu of actions, by its button."""
        self.page.locator(".manage > summary").click()

    def dialog(self, name: str | None = None) -> Dialog:
        return Dialog(self.page.get_by_role("dialog", name=name))

    @property
    def alert(self) -> Locator:
        return self.page.get_by_role("alert")

    @property
    def status(self) -> Locator:
        return self.page.get_by_role("status")

    def show_token(self, token: str) -> None:
        dialog = self.dialog("Token needed")
        dialog.element.get_by_label("Token", exact=True).fill(token)
        dialog.press("Use token")

    def serious(self) -> set[str]:
        """Return the serious findings of axe, with their places."""
        if not self.page.evaluate("() => 'axe' in window"):
            script = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
            self.page.evaluate(f"() => {{ {script} }}")
        violations: list[dict[str, Any]] = self.page.evaluate(AXE)
        return {
            f"{violation['id']}: {node['target']}"
            for violation in violations
            if violation["impact"] in {"serious", "critical"}
            for node in violation["nodes"]
        }

    def is_in_sight(self, *locators: Locator) -> bool:
        size = self.page.viewport_size
        boxes = [locator.bounding_box() for locator in locators]
        assert size
        return all(
            box is not None
            and min(box["x"], box["y"]) >= 0
            and box["x"] + box["width"] <= size["width"]
            and box["y"] + box["height"] <= size["height"]
            for box in boxes
        )


class Dialog:
    """A dialog of the page, which shows a dry run and asks why."""

    def __init__(self, element: Locator) -> None:
        self.element = element
        self.dry_run = element.locator("[data-role=dry-run]")

    @property
    def why(self) -> Locator:
        return self.element.get_by_label("Why?", exact=True)

    def press(self, name: str) -> None:
        self.element.get_by_role("button", name=name, exact=True).click()

    def act(self, name: str, why: str) -> None:
        self.why.fill(why)
        self.press(name)

    def wait_for_dry_run(self) -> Dialog:
        expect(self.dry_run.locator("time").first).to_be_visible()
        return self


def moments(locator: Locator) -> list[int]:
    """Return the times shown there, in Unix ms."""
    stamps = locator.locator("time").evaluate_all("all => all.map(one => one.dateTime)")
    return [round(datetime.fromisoformat(stamp).timestamp() * 1000) for stamp in stamps]


def is_seen_within(visit: Visit, view: str, text: str, seconds: float) -> bool:
    """Open a view up to three times, and return whether the text was seen in time."""

    def took() -> float:
        begun_s = time.monotonic()
        visit.open(view)
        expect(visit.page.locator("main").get_by_text(text).first).to_be_visible()
        return time.monotonic() - begun_s

    return any(took() < seconds * slowdown() for _ in range(3))
