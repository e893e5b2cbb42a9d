"""Alignments where people look: beside the streams, and on a stream whose readers wait."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
from playwright.sync_api import expect

from tests.support.aligned import report_member
from tests.support.dashboards import wall_ms

if TYPE_CHECKING:
    from tests.browser.conftest import Visiting
    from tests.support.browser import Visit
    from tests.support.gates import Guarded
    from tests.support.served import Served


def test_a_controller_without_alignments_shows_no_place_for_them(
    visiting: Visiting, closed: Served, guarded: Guarded
) -> None:
    """Only streams."""
    visit = visiting(closed.url)
    visit.open()
    visit.show_token(guarded.token("admin"))
    expect(visit.rows("Streams").first).to_be_visible()

    expect(visit.region("Alignments")).to_have_count(0)


def test_an_alignment_names_who_holds_it_and_who_is_at_the_bound(
    visit: Visit, aligned: str
) -> None:
    """And who does not count, and why."""
    visit.open()
    row = visit.rows("Alignments").filter(has_text=aligned)
    members = row.get_by_role("paragraph")

    expect(row).to_contain_text("of 1m")
    expect(members).to_have_text(
        [
            re.compile("^ledger .*:"),
            re.compile("^billing-job .* at the bound$"),
            re.compile("no time yet$"),
        ]
    )


def test_who_holds_an_alignment_leads_to_its_stream(
    visit: Visit, served: Served, aligned: str
) -> None:
    """Where it is a reader group."""
    report_member(served.url, aligned, "ledger", wall_ms())
    visit.open()
    row = visit.rows("Alignments").filter(has_text=aligned)
    row.get_by_role("link", name="billing-job").first.click()

    expect(visit.page.get_by_role("heading", level=1)).to_have_text("orders")


def test_a_reader_group_at_the_bound_says_who_holds_it(visit: Visit, aligned: str) -> None:
    """Beside its name, and no other group of the stream does."""
    visit.open_stream("orders")
    held = visit.rows("Readers").filter(has_text=f"at the bound of {aligned}, held by ledger")

    expect(held).to_have_count(1)
    expect(held).to_contain_text("billing")


def test_an_alignment_that_is_removed_goes_from_the_page(
    visit: Visit, served: Served, aligned: str
) -> None:
    """Without anything being pressed."""
    visit.page.clock.install()
    visit.open()
    row = visit.rows("Alignments").filter(has_text=aligned)
    expect(row).to_be_visible()
    url = f"{served.url}/v1/alignments/{aligned}"
    httpx.delete(url, trust_env=False).raise_for_status()
    visit.next_answers()
    visit.next_answers()

    expect(row).to_have_count(0)
