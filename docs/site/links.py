"""What is wrong with a built site: links that lead nowhere, and loads from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from docs import reference

ABSOLUTE = "404.html"  # is shown under any address, so its links begin at the root of a server


class Page(HTMLParser):
    """The anchors of a page, and what it links to or shows."""

    def __init__(self, text: str) -> None:
        """Read it."""
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record what a tag names."""
        attributes = {name: value or "" for name, value in attrs}
        for name in ("id", "name"):
            if name in attributes:
                self.anchors.add(attributes[name])
        for name in ("href", "src"):
            if name in attributes and tag != "meta":
                self.links.add(attributes[name])
        if "srcset" in attributes:
            self.links |= list_pictures(attributes["srcset"])


def list_pictures(srcset: str) -> set[str]:
    """Return the addresses of a list of pictures and their widths.

    >>> sorted(list_pictures("a.png, b.png 2x"))
    ['a.png', 'b.png']
    """
    return {candidate.split()[0] for candidate in srcset.split(",")}


def faults(site: Path) -> list[str]:
    """Return a sentence for each link that leads nowhere, and for each address to load from."""
    texts = {path.resolve(): path.read_text("utf-8") for path in site.rglob("*.html")}
    pages = {path: Page(text) for path, text in texts.items() if path.name != ABSOLUTE}
    faults_found = []
    for path, page in pages.items():
        for link in page.links:
            fault = fault_of(link, path, pages)
            if fault:
                faults_found.append(f"{path.relative_to(site.resolve())} links to {link}, {fault}")
    for path in (*texts, *site.resolve().rglob("*.css")):
        loads = reference.loaded_from_elsewhere(path.read_text("utf-8"))
        faults_found += [f"{path.relative_to(site.resolve())} loads {address}" for address in loads]
    return sorted(faults_found)


def fault_of(link: str, path: Path, pages: dict[Path, Page]) -> str:
    """Return why a link of the page at a path leads nowhere; "" if it leads somewhere."""
    to = urlsplit(link)
    if to.scheme or to.netloc:
        return ""
    target = (path.parent / unquote(to.path)).resolve() if to.path else path
    if not target.is_file():
        return "which is not there"
    if to.fragment and target in pages:
        return "" if unquote(to.fragment) in pages[target].anchors else "which has no such anchor"
    return ""
