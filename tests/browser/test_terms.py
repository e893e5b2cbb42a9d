"""Terms show the glossary's sentences, under the pointer and with the focus."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from docs.glossary import PAGE, read_sentences
from tests.browser.conftest import Visiting, viewport
from tools.trials.browser import LAPTOP, PHONE, Visit

SENTENCES = read_sentences(Path(PAGE).read_text("utf-8"))
SHOWN = ".definition:popover-open"


def open_orders(visit: Visit) -> Locator:
    """Open a stream, and return the term of its watermark."""
    visit.open_stream("orders")
    return visit.region("Why").locator("dfn", has_text="Watermark")


def test_term_shows_its_sentence_under_the_pointer(visit: Visit) -> None:
    """The pointer may move onto the sentence, which is hidden when the pointer leaves both."""
    term = open_orders(visit)
    shown = visit.page.locator(SHOWN)
    expect(shown).to_have_count(0)
    term.hover()
    expect(shown).to_contain_text(SENTENCES["watermark"])
    shown.hover()
    expect(shown).to_contain_text(SENTENCES["watermark"])
    visit.page.get_by_role("heading", level=1).hover()

    expect(shown).to_have_count(0)


def test_term_shows_its_sentence_with_the_focus(visit: Visit) -> None:
    """Tab reaches it. Escape hides the sentence, and so does the next Tab."""
    term = open_orders(visit)
    shown = visit.page.locator(SHOWN)
    term.focus()
    visit.page.keyboard.press("Shift+Tab")
    expect(shown.filter(has_text=SENTENCES["watermark"])).to_have_count(0)
    visit.page.keyboard.press("Tab")
    expect(term).to_be_focused()
    expect(shown).to_contain_text(SENTENCES["watermark"])
    visit.page.keyboard.press("Escape")
    expect(shown).to_have_count(0)

    visit.page.keyboard.press("Shift+Tab")
    visit.page.keyboard.press("Tab")
    expect(shown).to_contain_text(SENTENCES["watermark"])
    visit.page.keyboard.press("Tab")
    expect(shown.filter(has_text=SENTENCES["watermark"])).to_have_count(0)


def test_sentence_stays_while_the_page_is_polled(visit: Visit) -> None:
    visit.page.clock.install()
    term = open_orders(visit)
    term.focus()
    for _ in range(3):
        visit.next_answers()

    expect(term).to_be_focused()
    expect(visit.page.locator(SHOWN)).to_contain_text(SENTENCES["watermark"])


DESCRIPTIONS = {f"{word} {sentence}" for word, sentence in SENTENCES.items()}

READ_DESCRIPTIONS = r"""all => all.filter(term => term.checkVisibility()).map(term => [
    term.innerText, document.getElementById(term.getAttribute("aria-describedby"))
        .textContent.replace(/\s+/g, " "), term.tabIndex])"""


@pytest.mark.parametrize("size", [PHONE, LAPTOP])
def test_each_term_is_described_by_the_glossary(visiting: Visiting, size: tuple[int, int]) -> None:
    """A screen reader reads the sentence. Phones have the terms of the columns above the rows."""
    visit = visiting(viewport=viewport(size))
    for view, terms in (
        ("/", {"Watermark", "Lag", "Held back by", "Writers"}),
        (
            "/streams/orders",
            {"Watermark", "Noted", "Times out in", "Without it", "Upper bound", "Late rows"}
            | {"Time window", "Lag", "Segments", "From", "To", "Noted by", "Ledger"},
        ),
    ):
        visit.open(view)
        expect(visit.page.locator("main table").first).to_be_visible()
        visit.page.wait_for_load_state("networkidle")
        described = visit.page.locator("dfn").evaluate_all(READ_DESCRIPTIONS)

        assert terms <= {text for text, _, _ in described}
        for text, description, tab_index in described:
            assert (description in DESCRIPTIONS, tab_index) == (True, 0), text


def test_sentences_stay_within_the_page(visiting: Visiting) -> None:
    """Also those of the terms near an edge of a phone."""
    visit = visiting(viewport=viewport(PHONE))
    open_orders(visit)
    for term in visit.page.locator("dfn:visible").all():
        term.focus()
        assert visit.is_in_sight(visit.page.locator(SHOWN)), term.inner_text()
