"""Build the site of the pages, to be read and searched without a network: `./run docs`.

The site has the folders of this clone, so that the links of the pages lead there as they do here.
A link that leads nowhere fails the build, and so does a page that would load from elsewhere.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import webbrowser
from pathlib import Path
from urllib.parse import unquote

from docs import reference
from docs.site import http_calls
from docs.site.links import faults

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "build" / "docs"
CONFIG = ROOT / "docs" / "site" / "zensical.toml"
TEMPLATES = ROOT / "docs" / "site" / "pdoc"
RUNBOOK = re.compile(r"runbook: (docs/\S+)\.md(#\S+)")
LINKED = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)")
PICTURE = re.compile(r"^!\[([^\]]*)\]\((\S+)\)$", re.MULTILINE)
TWO_PICTURES = re.compile(
    r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img src="([^"]+)" alt="([^"]*)">\s*</picture>'
)
SCREENSHOT = re.compile("dashboard-")
"""Pictures that keep their colours on a dark page."""

WORD_ROWS = re.compile(r"\| word \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)")
WORD_ROW = re.compile(r"\| (.+?) \| (.+) \|")

PYTHON = """# Python

What the packages offer; each name leads to its reference.
"""


def gather(root: Path, pages: Path) -> None:
    """Copy the pages, and the files that they link to, into the same folders below another."""
    for page in root.glob("*.md"):
        shutil.copy(page, pages)
    shutil.copytree(
        root / "docs",
        pages / "docs",
        ignore=shutil.ignore_patterns("*.py", "*.toml", "__pycache__", TEMPLATES.name),
    )
    for page in list(pages.rglob("*.md")):
        text = page.read_text("utf-8")
        page.write_text(link_pictures(text), "utf-8")
        beside = (root / page.relative_to(pages)).parent
        for link in LINKED.findall(text):
            linked_file = (beside / unquote(link)).resolve()
            copied_file = pages / linked_file.relative_to(root)
            if linked_file.is_file() and not copied_file.exists():
                copied_file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(linked_file, copied_file)


def link_pictures(text: str) -> str:
    """Make each picture of a page a link to itself, and choose between two by the site's scheme.

    >>> print(link_pictures("![A plot](loss.png)"))
    <a class="drawing" href="loss.png"><img src="loss.png" alt="A plot"></a>
    """

    def show_one(match: re.Match[str]) -> str:
        alternative, file = match.groups()
        return show_picture(file, alternative)

    def show_two(match: re.Match[str]) -> str:
        dark_file, light_file, alternative = match.groups()
        light_picture = show_picture(light_file, alternative, "only-light")
        return light_picture + show_picture(dark_file, alternative, "only-dark")

    return TWO_PICTURES.sub(show_two, PICTURE.sub(show_one, text))


def show_picture(file: str, alternative: str, kind: str = "") -> str:
    """Return a picture as a link to its file."""
    if not kind:
        kind = "screenshot" if SCREENSHOT.search(file) else "drawing"
    return f'<a class="{kind}" href="{file}"><img src="{file}" alt="{alternative}"></a>'


def add_word_sections(glossary: Path) -> None:
    """Make each word of the glossary a section, which the search lists before other sections."""
    text = glossary.read_text("utf-8")
    glossary.write_text(WORD_ROWS.sub(lambda rows: make_sections(rows[1]), text), "utf-8")


def make_sections(rows: str) -> str:
    r"""Return a section for each row of a table of words.

    >>> make_sections("| cut, stream cut | an offset for each segment |\n")
    '### cut, stream cut\n\nan offset for each segment\n'
    """
    sections = []
    for word, meaning in WORD_ROW.findall(rows):
        unescaped_meaning = meaning.replace(r"\|", "|")
        sections.append(f"### {word}\n\n{unescaped_meaning}\n")
    return "\n".join(sections)


def add_python(pages: Path) -> None:
    """Add the reference of the Python interface, and a page that lists its names."""
    python_pages = pages / "python"
    reference.build(python_pages, TEMPLATES)
    for python_page in python_pages.rglob("*.html"):
        python_page.rename(python_page.with_suffix(".md"))  # the templates write Markdown
    lines = [PYTHON]
    for name in reference.PACKAGES:
        package = importlib.import_module(name)
        about = inspect.getdoc(package) or ""
        lines += [f"## {name}", "", sentence(about), "", "| name | what it is |", "|---|---|"]
        page = f"../../python/{name.replace('.', '/')}.md"
        for public in sorted(package.__all__):
            meaning = sentence(inspect.getdoc(getattr(package, public)) or "")
            lines.append(f"| [`{public}`]({page}#{public}) | {meaning} |")
        lines.append("")
    (pages / "docs" / "reference" / "python.md").write_text("\n".join(lines), "utf-8")


def link_runbooks(alerts: Path, public_url: str) -> None:
    """Have the runbooks of alert rules lead to the site, where it is served at that URL."""
    site = public_url.rstrip("/")

    def link(match: re.Match[str]) -> str:
        page, anchor = match.groups()
        return f"runbook_url: {site}/{page}.html{anchor}"

    rules = alerts.read_text("utf-8")
    alerts.write_text(RUNBOOK.sub(link, rules), "utf-8")


def write_config(config: Path, public_url: str) -> None:
    """Write the site's configuration. The page for unknown addresses needs the public URL."""
    text = CONFIG.read_text("utf-8")
    if public_url:
        site_url = json.dumps(f"{public_url.rstrip('/')}/")
        text = text.replace("[project]\n", f"[project]\nsite_url = {site_url}\n", 1)
    config.write_text(text, "utf-8")


def sentence(docstring: str) -> str:
    """Return the first paragraph of a docstring, fit for a cell of a table."""
    paragraph = " ".join(docstring.split("\n\n", maxsplit=1)[0].split())
    return paragraph.replace("|", r"\|").replace("<", "&lt;")


def build(root: Path, target: Path, zensical: Path, public_url: str = "") -> list[str]:
    """Build the site of a clone into a directory; returns what is wrong with it."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        pages = work / "pages"
        site = work / "site"
        pages.mkdir()
        gather(root, pages)
        add_word_sections(pages / "docs" / "reference" / "glossary.md")
        add_python(pages)
        calls = pages / "docs" / "reference" / "http-calls.md"
        calls.write_text("\n".join(http_calls.list_lines()), "utf-8")
        if public_url:
            link_runbooks(pages / "docs" / "reference" / "alerts.yml", public_url)
        write_config(work / CONFIG.name, public_url)
        words = [str(zensical), "build", "--strict", "--config-file", str(work / CONFIG.name)]
        process = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        if process.returncode:
            return [process.stdout + process.stderr]
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(site, target)
    return faults(target)


def main(arguments: list[str]) -> int:
    """Build the site, say where it is, and open it if asked to; returns an exit code."""
    parser = argparse.ArgumentParser(prog="./run docs", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=TARGET, help="where to build")
    parser.add_argument("--open", action="store_true", help="open the site in a browser")
    parser.add_argument(
        "--public-url",
        default="",
        metavar="URL",
        help="where it will be served, for the runbooks in alerts.yml and the links of 404.html",
    )
    options = parser.parse_args(arguments)
    zensical = Path(os.environ["NOTED_TIME_DOCS"], "zensical")
    wrong = build(ROOT, options.directory, zensical, options.public_url)
    if wrong:
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    home = (options.directory / "index.html").resolve()
    print(home)
    if options.open:
        webbrowser.open(home.as_uri())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
