"""The rights that tokens give on the page."""

import re

import pytest
from playwright.sync_api import expect

from demo.trials.browser import Visit
from demo.trials.dashboards import stall
from demo.trials.served import Served
from tests.browser.conftest import Visiting
from tests.support.gates import Guarded

CONTROLS = re.compile("^(Remove|Hold|Release|Edit|Truncate|Seal)")
CARGO = "/streams/cargo"


@pytest.fixture
def visit(visiting: Visiting, token_controller: Served) -> Visit:
    """A page of the controller that asks for tokens."""
    return visiting(token_controller.url)


def test_token_is_asked_for_until_valid_and_kept_for_the_tab(visit: Visit, tokens: Guarded) -> None:
    """It is kept when the page is loaded again."""
    visit.open(CARGO)
    visit.show_token("nt_0123456789ab_no")
    expect(visit.dialog("Token needed").element).to_contain_text("unknown, expired or revoked")
    visit.show_token(tokens.token("read"))
    expect(visit.region("Why")).to_contain_text("lima")
    visit.page.reload()

    expect(visit.region("Why")).to_contain_text("lima")


def test_only_an_administrator_is_offered_controls(visit: Visit, tokens: Guarded) -> None:
    visit.open(CARGO)
    visit.show_token(tokens.token("read"))
    expect(visit.rows("Writers").first).to_be_visible()

    expect(visit.page.get_by_role("button", name=CONTROLS)).to_have_count(0)


def test_token_revoked_while_a_form_is_open_keeps_typed_text(
    visit: Visit, token_controller: Served, tokens: Guarded
) -> None:
    """The page asks for another token, and then sends the typed text."""
    why, first = "the depot burnt down", tokens.token("admin")
    stall(token_controller, "parcels")
    visit.open("/streams/parcels")
    visit.show_token(first)
    visit.button("Remove lima…").click()
    dialog = visit.dialog("Remove lima")
    dialog.why.fill(why)
    tokens.revoke(first)
    expect(visit.dialog("Token needed").element).to_be_visible()
    visit.show_token(tokens.token("admin"))
    expect(dialog.why).to_have_value(why)
    dialog.press("Remove")
    expect(dialog.element).to_be_hidden()

    assert token_controller.get("parcels/changes")["changes"][0]["comment"] == why


def test_controls_disappear_with_a_revoked_token(visit: Visit, tokens: Guarded) -> None:
    """The page keeps the data that an administrator saw, but no button to act on it."""
    token = tokens.token("admin")
    visit.open(CARGO)
    visit.show_token(token)
    expect(visit.button("Seal…")).to_be_visible()
    tokens.revoke(token)
    visit.dialog("Token needed").press("Cancel")
    expect(visit.alert).to_contain_text("A token is needed")

    expect(visit.page.get_by_role("button", name=CONTROLS)).to_have_count(0)


def test_list_has_only_readable_streams(
    visit: Visit, token_controller: Served, tokens: Guarded
) -> None:
    token_controller.make("secret")
    visit.open()
    visit.show_token(tokens.token("read", streams=("car*",)))
    expect(visit.rows("Streams")).to_have_count(1)

    expect(visit.page.locator("main")).not_to_contain_text("secret")


@pytest.mark.parametrize("view", ["/", CARGO])
def test_token_without_read_right_can_be_replaced(visit: Visit, tokens: Guarded, view: str) -> None:
    """The page neither reports an empty list, nor shows that it is loading."""
    visit.open(view)
    visit.show_token(tokens.token("write"))
    expect(visit.page.locator("body")).to_contain_text("does not give the right to read")
    expect(visit.page.locator("body")).not_to_contain_text(re.compile("Loading|no streams"))
    visit.button("Use another token").click()
    visit.show_token(tokens.token("read"))

    expect(visit.page.locator("main")).to_contain_text("cargo")


def test_loading_ends_when_no_token_is_given(visit: Visit) -> None:
    """The alert names the missing token."""
    visit.open(CARGO)
    visit.dialog("Token needed").press("Cancel")

    expect(visit.alert).to_contain_text("A token is needed")
    expect(visit.page.locator("main")).to_be_empty()
