"""The links of the pages lead to files of this tree, and to headings that are there."""

import re
from pathlib import Path

import pytest

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def text_of(page: Path) -> str:
    """Return a page without its code, in which nothing is a link or a heading."""
    return CODE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return what links to the headings of a page end in, as GitHub makes them."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text_of(page)))
    return {each.replace(" ", "-") for each in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """No page that was renamed, and no heading."""
    broken = [
        f"{file}#{anchor}"
        for file, anchor in LINK.findall(text_of(page))
        if not (target := page.parent / file if file else page).exists()
        or (anchor and target.suffix == ".md" and anchor not in anchors(target))
    ]

    assert broken == []
