"""The links and lines of the pages, and the files of the dashboard."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs import glossary
from docs.reference import PACKAGES

# The links of the pages lead to files of this tree, and to headings that are there


LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)")

HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)

CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

ROOT = Path(__file__).resolve().parents[2]

TOP = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]

PAGES = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]


def text_of(page: Path) -> str:
    """Return a page without its code, where nothing is a link or a heading."""
    return CODE.sub("", page.read_text(encoding="utf-8"))


def show_path(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text_of(page)))
    return {heading.replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob(".github/*.md")], ids=show_path)
def test_links_lead_somewhere(page: Path) -> None:
    """Pages and headings may be renamed only with their links."""
    broken = []
    for file, anchor in LINK.findall(text_of(page)):
        target = page.parent / file if file else page
        has_anchors = target.suffix == ".md" and target.exists()
        if not target.exists() or (anchor and has_anchors and anchor not in anchors(target)):
            broken.append(f"{file}#{anchor}")

    assert broken == []


def test_the_license_names_one_holder(root: Path) -> None:
    """The template of the license has brackets for the year and the name."""
    holder = "Copyright 2026 The noted-time authors"

    assert [holder in (root / name).read_text() for name in ("LICENSE", "NOTICE")] == [True] * 2


def list_pages(nav: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the pages of the navigation, a page or a group an entry."""
    for titled_entry in nav:
        for pages in titled_entry.values():
            if isinstance(pages, str):
                yield pages
            else:
                yield from list_pages(pages)


def test_every_page_is_in_the_navigation_of_the_site(root: Path) -> None:
    """Decisions are listed by their own index. The reference of Python has a page for a package."""
    config = tomllib.loads((root / "docs" / "site" / "zensical.toml").read_text())
    listed_pages = {*list_pages(config["project"]["nav"])}
    decisions = root / "docs" / "explain" / "decisions"
    written_pages = {str(page.relative_to(root)) for page in PAGES if page.parent != decisions}
    index = (decisions / "README.md").read_text()

    made_pages = {"docs/reference/python.md", "docs/reference/http-calls.md", "CHANGELOG.md"}
    made_pages |= {f"python/{package.replace('.', '/')}.md" for package in PACKAGES}
    assert listed_pages ^ written_pages == made_pages | {"docs/explain/decisions/README.md"}
    indexed_names = set(re.findall(r"\]\((\d{4}-.*?\.md)\)", index))
    assert {decision.name for decision in decisions.glob("0*.md")} == indexed_names


# The prose of the pages wraps at 120 columns, so that the diff of a page can be read


COLUMNS = 120

FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)

BLOCK = re.compile(r"`[^`\n]*`")

ITEM = re.compile(r"^(?:[-*+]|\d+\.) +")


def too_long(page: str) -> list[str]:
    """Return the lines that exceed the columns and could be broken.

    Tables, pictures and code may be longer, and so may lines without a space outside of code.

    >>> too_long("| " + "a cell " * 20 + "|")
    []
    >>> too_long("- " + "x" * 120)
    []
    >>> too_long("- x " + "y" * 120) == ["- x " + "y" * 120]
    True
    """
    lines = FENCE.sub("", page).splitlines()
    long = (line for line in lines if len(line) > COLUMNS)
    prose = (line for line in long if not line.lstrip().startswith(("|", "![", "#")))
    return [line for line in prose if " " in ITEM.sub("", BLOCK.sub("code", line).strip())]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=show_path)
def test_prose_wraps(page: Path) -> None:
    """A paragraph is not one line."""
    assert too_long(page.read_text(encoding="utf-8")) == []


# The dashboard's files are read as they are: without a linter, these tests keep them readable


FOLDER = ROOT / "controller" / "api" / "pages" / "dashboard"

TEXTS = {each.name: each.read_text("utf-8") for each in FOLDER.iterdir()}


MOST_LINES = 250

MOST_COLUMNS = 120


@pytest.mark.parametrize("name", TEXTS)
def test_files_and_their_lines_are_short(name: str) -> None:
    """A part can be read at once. A tab would hide the length of a line."""
    lines = TEXTS[name].splitlines()

    assert len(lines) <= MOST_LINES
    assert max(len(line) for line in lines) <= MOST_COLUMNS
    assert "\t" not in TEXTS[name]


def test_dashboard_has_sentences_of_glossary(root: Path) -> None:
    """`./run python docs/glossary.py` writes them."""
    page = (root / "docs" / "reference" / "glossary.md").read_text("utf-8")

    assert TEXTS["glossary.js"] == glossary.write_module(glossary.read_sentences(page))


# The symptoms that a page quotes are messages of the code


QUOTED = re.compile(r"`([^`]+)`")

CODE_FOLDERS = (
    *("controller", "java", "noted_time", "noted_time_cli", "noted_time_extensions"),
    *("reader_client", "spark_integration", "writer_client"),
)

NOT_LITERAL = {  # composed of two texts or with a value, or Spark's own
    "Python worker failed to connect back",
    "retrying: no controller answers",
    "retrying: unknown_stream",
    "no more is noted: a record was not delivered",
    "of Kafka topic 'flights.noted",
    "mark of stream",
    "has 2 partitions",
}


def test_messages_quoted_in_symptoms_are_in_the_code(root: Path) -> None:
    """Between the dots of a quote, which stand for what varies."""
    page = (root / "docs" / "guides" / "symptoms.md").read_text("utf-8")
    code = ""
    for top in CODE_FOLDERS:
        for path in (root / top).rglob("*.*"):
            if path.suffix in {".py", ".java", ".js"}:
                code += re.sub(r'"\s*\+?\s*f?"', "", path.read_text("utf-8"))
    parts = set()
    for cell in re.findall(r"^\| (.*?) \|", page, re.MULTILINE):
        for quote in QUOTED.findall(cell):
            parts |= {part.strip(" ,;'") for part in quote.split("…")}

    assert {part for part in parts if len(part) > 5 and part not in code} - NOT_LITERAL == set()
