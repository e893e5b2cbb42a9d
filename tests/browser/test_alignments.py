"""Alignments as people see them: beside the streams, and on a stream whose readers wait."""

import re

from playwright.sync_api import expect

from tests.support.browser import Visit
from tests.support.calls import Calls


def test_an_alignment_names_its_holders_and_members_at_the_bound(
    visit: Visit, aligned: str
) -> None:
    """And which do not count, and why; a reader group links to its stream."""
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
    members.get_by_role("link", name="billing-job").click()
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("orders")


def test_a_reader_group_at_the_bound_names_its_holder(visit: Visit, aligned: str) -> None:
    """Beside its name, and no other group of the stream does."""
    visit.open_stream("orders")
    held = visit.rows("Readers").filter(has_text=f"at the bound of {aligned}, held by ledger")

    expect(held).to_have_count(1)
    expect(held).to_contain_text("billing")


def test_an_alignment_that_is_removed_goes_from_the_page(
    visit: Visit, seed: Calls, aligned: str
) -> None:
    """Without anything being pressed."""
    visit.page.clock.install()
    visit.open()
    row = visit.rows("Alignments").filter(has_text=aligned)
    expect(row).to_be_visible()
    seed.ask("DELETE", f"/alignments/{aligned}").raise_for_status()
    visit.next_answers()
    visit.next_answers()

    expect(row).to_have_count(0)
