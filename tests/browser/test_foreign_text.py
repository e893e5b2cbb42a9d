"""What others wrote is shown as text, and the page calls the controller alone."""

import re
from typing import Any
from urllib.parse import quote, unquote_plus

from playwright.sync_api import Route, expect

from tests.support.browser import Visit
from tests.support.calls import Calls
from tests.support.dashboards import MARKUP, Stalled

WORDS = {"state", "decision", "action", "reason", "code", "stream"}
"""Fields whose values the page looks up; the others it only shows."""

ELEMENTS = "img[src=x], .hostile, [onerror]"


BY_NAME = {"behind", "lower_without", "marks", "members", "readers", "times", "windows"}
"""Fields whose value has names of writers, readers or domains for fields."""


def hostile(value: Any, field: str = "") -> Any:  # noqa: ANN401 - any JSON
    """Return the answer with markup behind every text and every name in it."""
    if isinstance(value, dict):
        behind = MARKUP if field in BY_NAME else ""
        return {f"{name}{behind}": hostile(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [hostile(each, "" if isinstance(each, dict) else field) for each in value]
    return f"{value}{MARKUP}" if isinstance(value, str) and field not in WORDS else value


def spoil(route: Route) -> None:
    """Answer with markup in every field."""
    answer = route.fetch(url=unquote_plus(route.request.url).replace(MARKUP, ""))
    route.fulfill(status=answer.status, json=hostile(answer.json()))


def test_markup_in_every_field_of_every_answer_becomes_no_element(
    visit: Visit, aligned: str
) -> None:
    """Names cannot have any, but the page does not lean on that."""
    visit.page.route(re.compile("/v1/"), spoil)
    for view in ("/", "/streams/orders"):
        visit.open(view)
        expect(visit.page.locator("main")).to_contain_text(f"{aligned}{MARKUP}")
        expect(visit.page.locator("main table").first).to_be_visible()
        visit.page.wait_for_load_state("networkidle")

        expect(visit.page.locator(ELEMENTS)).to_have_count(0)


def test_markup_in_the_address_and_the_search_becomes_no_element(visit: Visit) -> None:
    """It is looked for, and not found."""
    visit.open(f"/streams/{quote(MARKUP, safe='')}")
    expect(visit.page.get_by_role("link", name="All streams").first).to_be_visible()
    visit.open(f"/streams/orders?domain={quote(MARKUP, safe='')}")
    expect(visit.alert).not_to_be_empty()
    visit.open()
    visit.page.get_by_role("searchbox", name="Search streams").fill(MARKUP)
    expect(visit.rows("Streams").filter(has_text="orders")).to_have_count(0)

    expect(visit.page.locator(ELEMENTS)).to_have_count(0)


def test_the_description_of_the_api_behaves_as_well(visit: Visit) -> None:
    """It runs nothing and requests files of the controller only, like each page of these tests."""
    visit.page.goto(f"{visit.url}/docs")

    expect(visit.page.get_by_role("heading", level=1)).to_have_text("The HTTP API")
    assert visit.hosts == {visit.own}


def test_the_labels_of_two_processes_are_shown_as_they_were_given(
    visit: Visit, seed: Calls, stalled: Stalled
) -> None:
    """Beside the reason why the watermark holds, and in the ledger."""
    older, younger = (
        {"writer": "lima", "session": each, "takes_over": True, "label": f"{each}{MARKUP}"}
        for each in ("older", "younger")
    )
    seed.call("POST", f"/{stalled.name}/notes", {"notes": [older, younger, older]})
    visit.open_stream(stalled.name)

    detail = f"lima is noted by two processes: younger{MARKUP} has the name since"
    expect(visit.page.locator("main")).to_contain_text(detail)
    expect(visit.rows("Writers").filter(has_text="lima")).to_contain_text(f"younger{MARKUP}")
    expect(visit.page.locator("main")).to_contain_text(
        f"lima taken over from older{MARKUP} by younger{MARKUP}"
    )
    expect(visit.page.locator(ELEMENTS)).to_have_count(0)
