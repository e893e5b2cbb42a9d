"""For readers with a keyboard, a screen reader, a phone, or a dark room."""

from typing import Literal

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visiting
from tests.support.browser import LAPTOP, PHONE, Visit
from tests.support.dashboards import Stalled
from tests.support.served import Served

ALIKE: dict[Literal["light", "dark"], tuple[int, int]] = {"light": LAPTOP, "dark": PHONE}
"""In which light a page is looked at, and on what."""

MOST_TABS = 80


def barriers(visit: Visit) -> dict[str, set[str]]:
    """Return what axe finds on a laptop in the light and on a phone in the dark.

    A phone also has to scroll in one direction only.
    """
    found = {}
    for scheme, (width, height) in ALIKE.items():
        visit.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        visit.page.set_viewport_size({"width": width, "height": height})
        found[scheme] = visit.serious()
    if visit.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found["dark"].add("it scrolls sideways")
    return {scheme: what for scheme, what in found.items() if what}


def test_a_barrier_would_be_found(visit: Visit) -> None:
    """A button without a name, which the page does not have."""
    visit.open()
    expect(visit.rows("Streams").first).to_be_visible()
    visit.page.evaluate("document.querySelector('h1').append(document.createElement('button'))")

    assert [each.partition(":")[0] for each in visit.serious()] == ["button-name"]


def test_the_first_steps_have_no_barriers_and_can_be_copied(
    visiting: Visiting, empty: Served
) -> None:
    """On an empty controller: each block as it is shown."""
    visit = visiting(empty.url, permissions=["clipboard-read", "clipboard-write"])
    visit.open()
    steps = visit.region("First steps")
    steps.get_by_role("button", name="Copy").first.click()

    copied = visit.page.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == steps.locator("code").first.inner_text().strip()
    assert barriers(visit) == {}


@pytest.mark.parametrize("view", ["/", "/streams/orders"])
@pytest.mark.usefixtures("aligned")
def test_a_view_has_no_barriers(visit: Visit, view: str) -> None:
    """The list of streams with an alignment, and a stream that is held."""
    visit.open(view)
    expect(visit.page.locator("main table").first).to_be_visible()
    visit.page.wait_for_load_state("networkidle")

    assert barriers(visit) == {}


def test_a_dialog_has_no_barriers(visit: Visit) -> None:
    """The removal of a writer, with its dry run."""
    visit.open_stream("orders")
    visit.button("Remove lima…").click()
    visit.dialog().shown()

    assert barriers(visit) == {}


def tab_to(visit: Visit, name: str) -> None:
    """Press Tab until the link or button of that name has the focus."""
    focused = (
        "document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"
    )
    for _ in range(MOST_TABS):
        visit.page.keyboard.press("Tab")
        if (visit.page.evaluate(focused) or "").strip() == name:
            return
    raise AssertionError(f"{name} is not reached by the keyboard")


def test_the_keyboard_alone_opens_a_stream_and_leaves_a_dialog(
    visit: Visit, stalled: Stalled
) -> None:
    """Escape gives the focus back to the button that opened it."""
    visit.open()
    visit.page.get_by_role("searchbox", name="Search streams").focus()
    visit.page.keyboard.type(stalled.name)
    expect(visit.rows("Streams").first).to_contain_text(stalled.name)
    tab_to(visit, stalled.name)
    visit.page.keyboard.press("Enter")
    expect(visit.page.get_by_role("heading", level=1)).to_contain_text(stalled.name)
    expect(visit.button("Remove lima…")).to_be_visible()
    tab_to(visit, "Remove lima…")
    visit.page.keyboard.press("Enter")
    expect(visit.dialog().element).to_be_visible()
    visit.page.keyboard.press("Escape")

    expect(visit.dialog().element).to_have_count(0)
    expect(visit.button("Remove lima…")).to_be_focused()


def test_polling_takes_no_focus_and_no_text_away(visit: Visit, stalled: Stalled) -> None:
    """Text being typed stays while answers come."""
    visit.page.clock.install()
    visit.open_stream(stalled.name)
    box = visit.page.get_by_role("searchbox", name="Search writers")
    box.focus()
    visit.page.keyboard.type("li")
    for _ in range(3):
        visit.next_answers()
    visit.page.keyboard.type("ma")

    expect(box).to_be_focused()
    expect(box).to_have_value("lima")
