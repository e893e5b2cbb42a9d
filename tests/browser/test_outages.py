"""Outages, foreign text and accessibility, where `scenes/*.txt` do not suffice."""

import re
from typing import Any, Literal
from urllib.parse import unquote_plus

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import Visiting
from tests.replicas.conftest import a, b, url
from tests.replicas.replica_processes import find_owned_name
from tests.support.processes import ServeProcess
from tools.trials.browser import LAPTOP, PHONE, Visit
from tools.trials.dashboards import MARKUP, Stalled, stall
from tools.trials.served import Served

__all__ = ["a", "b", "url"]

CALLS = re.compile("/v1/")


def test_hanging_controller_counts_as_no_answer(visit: Visit, stuck: Stalled) -> None:
    """The page gives up after 200 ms here instead of eight seconds."""
    expect(visit.open_stream(stuck.name)).to_contain_text("lima")
    visit.page.evaluate("""
        const after = AbortSignal.timeout.bind(AbortSignal);
        AbortSignal.timeout = (ms) => after(ms / 40);
    """)
    visit.page.route(CALLS, lambda _: None)

    expect(visit.alert.filter(has_text="No answer from the controller")).to_be_visible()
    visit.page.unroute_all(behavior="ignoreErrors")


def test_search_ends_with_its_view(visit: Visit, stuck: Stalled) -> None:
    """Who opens a stream soon after the last letter sees all of its writers."""
    urls: list[str] = []
    visit.open()
    expect(visit.page.get_by_role("searchbox", name="Search streams")).to_be_visible()
    visit.page.on("request", lambda request: urls.append(request.url))
    visit.page.evaluate(
        """name => {
            const box = document.querySelector("input[type=search]");
            box.value = "stall";
            box.dispatchEvent(new Event("input", {bubbles: true}));
            location.hash = `#/streams/${name}`;
        }""",
        stuck.name,
    )

    for _ in range(2):  # the first request, and the next one
        visit.page.wait_for_event("request", lambda request: "/writers?" in request.url)
    assert [url for url in urls if "search=" in url] == []


def test_answer_of_another_server_is_reported(visit: Visit, stuck: Stalled) -> None:
    """A proxy answers with a page of HTML."""
    expect(visit.open_stream(stuck.name)).to_contain_text("lima")
    visit.page.route(CALLS, lambda route: route.fulfill(body="<html>welcome to the hotel</html>"))

    expect(visit.alert).to_contain_text("is not a noted-time controller")
    expect(visit.region("Why")).to_contain_text("lima")


def test_list_shows_rows_of_other_replicas_or_says_they_are_old(
    visiting: Visiting, a: ServeProcess, b: ServeProcess
) -> None:
    """The page asks the owners of the visible streams."""
    names = [find_owned_name(a, "left"), find_owned_name(b, "right")]
    for name in names:
        stall(a, name)
    visit = visiting(a.url)
    visit.open()
    for name in names:
        expect(visit.rows("Streams").filter(has_text=name)).to_contain_text("lima")
    visit.page.route(re.compile("/streams/[^/]+/overview"), lambda route: route.fulfill(status=503))

    main = visit.page.locator("main")
    expect(main).to_contain_text("1 stream without a controller that answers: shown as last stored")
    visit.page.unroute_all(behavior="ignoreErrors")
    expect(main).not_to_contain_text("without a controller")


WORDS = {"state", "condition", "decision", "action", "reason", "code", "stream"}

"""Fields whose values the page looks up; the others it only shows."""

ELEMENTS = "img[src=x], .hostile, [onerror]"

BY_NAME = {"behind", "lower_without", "marks", "members", "readers", "times", "windows"}

"""Fields whose value has names of writers, readers or domains for fields."""


def add_markup(value: Any, field: str = "") -> Any:  # noqa: ANN401 - any JSON
    """Return the answer with markup behind every text and every name in it."""
    if isinstance(value, dict):
        behind = MARKUP if field in BY_NAME else ""
        return {f"{name}{behind}": add_markup(element, name) for name, element in value.items()}
    if isinstance(value, list):
        elements = []
        for element in value:
            field_of_element = "" if isinstance(element, dict) else field
            elements.append(add_markup(element, field_of_element))
        return elements
    return f"{value}{MARKUP}" if isinstance(value, str) and field not in WORDS else value


def spoil(route: Route) -> None:
    """Answer with markup in every field."""
    answer = route.fetch(url=unquote_plus(route.request.url).replace(MARKUP, ""))
    route.fulfill(status=answer.status, json=add_markup(answer.json()))


def test_markup_in_answers_becomes_no_element(visit: Visit) -> None:
    """Names cannot contain markup, but the page does not rely on that."""
    visit.page.route(re.compile("/v1/"), spoil)
    for view in ("/", "/streams/orders"):
        visit.open(view)
        expect(visit.page.locator("main")).to_contain_text(f"lima{MARKUP}")
        expect(visit.page.locator("main table").first).to_be_visible()
        visit.page.wait_for_load_state("networkidle")

        expect(visit.page.locator(ELEMENTS)).to_have_count(0)


ALIKE: dict[Literal["light", "dark"], tuple[int, int]] = {"light": LAPTOP, "dark": PHONE}

"""The light and the device of a visit."""


LOW_LINKS = """all => all.filter(link => link.getBoundingClientRect().height < 24)
    .map(link => link.innerText)"""


def find_barriers(visit: Visit) -> dict[str, set[str]]:
    """Return the findings of axe on a light laptop and on a dark phone.

    A phone must scroll in one direction only.
    """
    barriers = {}
    for scheme, (width, height) in ALIKE.items():
        visit.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        visit.page.set_viewport_size({"width": width, "height": height})
        barriers[scheme] = visit.serious()
    if visit.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        barriers["dark"].add("it scrolls sideways")
    return {scheme: findings for scheme, findings in barriers.items() if findings}


def test_first_steps_are_accessible_and_can_be_copied(visiting: Visiting, empty: Served) -> None:
    """The controller is empty, and the page shows the commands."""
    visit = visiting(empty.url, permissions=["clipboard-read", "clipboard-write"])
    visit.open()
    steps = visit.region("First steps")
    steps.get_by_role("button", name="Copy").first.click()

    copied_text = visit.page.evaluate("navigator.clipboard.readText()")
    assert copied_text.strip() == steps.locator("code").first.inner_text().strip()
    assert find_barriers(visit) == {}


@pytest.mark.parametrize(
    ("view", "button"),
    [("/", ""), ("/streams/orders", ""), ("/streams/orders", "Remove lima…")],
    ids=["list", "stream", "dialog"],
)
def test_view_or_dialog_is_accessible(visit: Visit, view: str, button: str) -> None:
    visit.open(view)
    expect(visit.page.locator("main table").first).to_be_visible()
    if button:
        visit.manage()
        visit.button(button).click()
        visit.dialog().wait_for_dry_run()
    visit.page.wait_for_load_state("networkidle")

    assert find_barriers(visit) == {}


def test_page_of_calls_is_linked_and_accessible(visit: Visit) -> None:
    """The link on top leads to it, and its list to each call. It has a link back."""
    visit.open()
    visit.page.get_by_role("link", name="API", exact=True).click()
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("HTTP API")
    visit.page.get_by_role("link", name="POST /v1/streams/{stream}/notes", exact=True).click()
    section = visit.page.get_by_role("region", name="Note time with up to 1000 notes")
    expect(section.get_by_role("heading")).to_be_in_viewport()
    expect(section.locator("pre")).to_contain_text("/v1/streams/flights/notes")
    expect(section.get_by_role("row").filter(has_text="notes[].writer")).to_be_visible()
    assert find_barriers(visit) == {}
    assert visit.page.locator("a:not(.skip)").evaluate_all(LOW_LINKS) == []
    visit.page.get_by_role("link", name="Streams", exact=True).click()

    expect(visit.rows("Streams").filter(has_text="orders")).to_be_visible()


def test_polling_keeps_focus_and_typed_text(visit: Visit, stuck: Stalled) -> None:
    visit.page.clock.install()
    visit.open_stream(stuck.name)
    box = visit.page.get_by_role("searchbox", name="Search writers")
    box.focus()
    visit.page.keyboard.type("li")
    for _ in range(3):
        visit.next_answers()
    visit.page.keyboard.type("ma")

    expect(box).to_be_focused()
    expect(box).to_have_value("lima")
