"""Who may see and who may act."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.calls import Calls

if TYPE_CHECKING:
    from tests.browser.conftest import Visiting
    from tests.support.gates import Guarded
    from tests.support.served import Served

CONTROLS = re.compile("^(Remove|Hold|Release|Edit|Truncate)")


def test_a_token_is_asked_for_and_kept_for_the_tab(
    visiting: Visiting, closed: Served, guarded: Guarded
) -> None:
    """Also when the page is loaded again."""
    token = guarded.token("read")
    visit = visiting(closed.url)
    visit.open("/streams/cargo")
    visit.show_token(token)
    expect(visit.region("Why")).to_contain_text("lima")
    visit.page.reload()

    expect(visit.region("Why")).to_contain_text("lima")


def test_a_token_that_is_none_is_asked_for_again(
    visiting: Visiting, closed: Served, guarded: Guarded
) -> None:
    """Until it is one."""
    token = guarded.token("read")
    visit = visiting(closed.url)
    visit.open("/streams/cargo")
    visit.show_token("nt_0123456789ab_no")
    expect(visit.dialog("Token needed").element).to_be_visible()
    visit.show_token(token)

    expect(visit.region("Why")).to_contain_text("lima")


def test_who_may_only_read_is_offered_no_control(
    visiting: Visiting, closed: Served, guarded: Guarded
) -> None:
    """An administrator is, on the same page."""
    offered = []
    for scope in ("read", "admin"):
        visit = visiting(closed.url)
        visit.open("/streams/cargo")
        visit.show_token(guarded.token(scope))
        expect(visit.region("Why")).to_contain_text("lima")
        expect(visit.rows("Writers").first).to_be_visible()
        offered.append(visit.page.get_by_role("button", name=CONTROLS).count() > 0)

    assert offered == [False, True]


def test_a_token_that_is_revoked_while_a_form_is_open_loses_no_text(
    visiting: Visiting, closed: Served, guarded: Guarded
) -> None:
    """Another is asked for, and then the act is done with what was typed."""
    first, second = guarded.token("admin"), guarded.token("admin")
    visit = visiting(closed.url)
    visit.open("/streams/cargo")
    visit.show_token(first)
    visit.button("Remove lima…").click()
    dialog = visit.dialog("Remove lima")
    dialog.why.fill("the depot burnt down")
    guarded.revoke(first)
    expect(visit.dialog("Token needed").element).to_be_visible()
    visit.show_token(second)
    expect(dialog.why).to_have_value("the depot burnt down")
    dialog.press("Remove")
    expect(dialog.element).to_be_hidden()

    seeder = Calls(closed.url, second)
    assert seeder.get("cargo/changes")["changes"][0]["comment"] == "the depot burnt down"


def test_only_the_streams_that_one_may_read_are_listed(
    visiting: Visiting, closed: Served, guarded: Guarded
) -> None:
    """And of another one that it cannot be read."""
    closed.make("secret")
    visit = visiting(closed.url)
    visit.open()
    visit.show_token(guarded.token("read", streams=("car*",)))
    expect(visit.rows("Streams")).to_have_count(1)

    expect(visit.page.locator("main")).not_to_contain_text("secret")


@pytest.mark.parametrize("view", ["/", "/streams/cargo"])
def test_a_token_that_may_read_nothing_is_told_so(
    visiting: Visiting, closed: Served, guarded: Guarded, view: str
) -> None:
    """Neither that there are no streams nor that they are loading; another token can be given."""
    visit = visiting(closed.url)
    visit.open(view)
    visit.show_token(guarded.token("write"))
    expect(visit.page.locator("body")).to_contain_text("does not give the right to read")
    expect(visit.page.locator("body")).not_to_contain_text(re.compile("Loading|no streams"))
    visit.button("Use another token").click()
    visit.show_token(guarded.token("read"))

    expect(visit.page.locator("main")).to_contain_text("cargo")


def test_loading_ends_when_no_token_is_given(
    visiting: Visiting, closed: Served, guarded: Guarded
) -> None:
    """The alert says what is needed."""
    guarded.token("read")
    visit = visiting(closed.url)
    visit.open("/streams/cargo")
    visit.dialog("Token needed").press("Cancel")

    expect(visit.alert).to_contain_text("A token is needed")
    expect(visit.page.locator("main")).to_be_empty()
