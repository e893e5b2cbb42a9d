"""The site of the pages: built, read and searched without a network."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from docs.site.build import link_runbooks
from docs.site.links import Page as Built
from docs.site.links import faults
from tests.support.processes import run_python
from tests.support.suites import find_programs
from tools.trials.browser import NO_BROWSER, chromium, find_chromium

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `./run docs` does, in another process."""
    return build_site(tmp_path_factory.mktemp("site"))


def build_site(directory: Path, *options: str) -> Path:
    """Build the site without faults, and return its directory."""
    target = directory / "docs"
    words = ("-m", "docs.site.build", target, *options)
    process = run_python(*words, NOTED_TIME_DOCS=str(find_programs("docs")))
    assert (process.returncode, process.stdout) == (0, f"{target / 'index.html'}\n"), process.stderr
    return target


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run a browser, if there is one."""
    if find_chromium() is None:
        pytest.skip(NO_BROWSER)
    with chromium() as started_browser:
        yield started_browser


@pytest.fixture
def address(site: Path) -> str:
    """Return where the site is, as files."""
    return site.as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Open an empty page; the test fails if it requests anything outside the site."""
    urls: list[str] = []
    opened_page = browser.new_page()
    opened_page.set_default_timeout(60_000)
    opened_page.on("request", lambda request: urls.append(request.url))
    yield opened_page
    opened_page.close()
    assert [url for url in urls if not url.startswith((address, "data:", "blob:"))] == []


def test_a_word_is_found(page: Page, address: str) -> None:
    """The first result leads to a page that has the word."""
    page.goto(f"{address}/index.html")
    page.get_by_role("button", name="Search").click()
    field = page.get_by_role("combobox", name="Search")
    field.fill("exclude")
    expect(page.get_by_text(re.compile(r"^\d+ results$"))).to_be_visible()
    expect(field).to_have_value("exclude")
    field.press("Enter")

    expect(page).not_to_have_url(re.compile(r"/index\.html"))
    expect(page.locator("article")).to_contain_text("exclude", ignore_case=True)


def test_a_name_of_the_python_interface_is_found(page: Page, address: str) -> None:
    """It leads to its reference."""
    page.goto(f"{address}/docs/reference/python.html")
    page.get_by_role("link", name="KafkaNotedProducer", exact=True).click()

    expect(page).to_have_url(re.compile(r"/python/writer_client\.html#KafkaNotedProducer$"))
    expect(page.locator("#KafkaNotedProducer")).to_be_visible()
    expect(page.locator('[id="KafkaNotedProducer.note_time"]')).to_contain_text("note_time")


def test_links_and_pictures_are_there(site: Path) -> None:
    """The reference is included, and nothing is loaded from other sites."""
    assert faults(site) == []


def test_page_for_unknown_addresses_is_whole_below_a_path(tmp_path: Path) -> None:
    """It is shown at any address, so it cannot have relative links."""
    site = build_site(tmp_path, "--public-url", "https://docs.example/noted-time")
    unknown = Built((site / "404.html").read_text("utf-8"))
    links = [link for link in unknown.links if not link.startswith(("#", "javascript:"))]

    assert "/noted-time/index.html" in links
    assert [link for link in links if not is_within(site, link, "/noted-time/")] == []


def is_within(site: Path, link: str, root: str) -> bool:
    """Return whether a link below a root leads to a file of the site."""
    return link.startswith(root) and (site / link.removeprefix(root).split("#")[0]).is_file()


def test_dead_anchor_within_the_reference_is_a_fault(site: Path, tmp_path: Path) -> None:
    """The check reads the sections of the reference as those of any other page."""
    name = "writer_client.html"
    section = 'id="KafkaNotedProducer.note_time"'
    text = (site / "python" / name).read_text("utf-8")
    (tmp_path / name).write_text(text.replace(section, 'id="other"'), "utf-8")
    fault = f"{name} links to #KafkaNotedProducer.note_time, which has no such anchor"

    assert section in text
    assert fault in faults(tmp_path)


@pytest.mark.parametrize(
    "name", ["index.html", "docs/guides/sinks.html", "docs/reference/api.html"]
)
def test_code_does_not_scroll_on_a_laptop(page: Page, address: str, name: str) -> None:
    """A line has 100 columns beside both sidebars; a longer one wraps."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{address}/{name}")
    hidden = page.locator("article pre > code").evaluate_all(
        "blocks => blocks.filter(block => block.scrollWidth > block.clientWidth).length"
    )

    assert hidden == 0


def test_picture_opens_whole(page: Page, address: str) -> None:
    """A drawing of 800 units cannot be read on a phone."""
    page.goto(f"{address}/docs/explain/concepts.html")
    page.locator("a.drawing").first.click()

    expect(page).to_have_url(re.compile(r"/docs/pictures/idea\.svg$"))


def test_dark_page_shows_dark_pictures(browser: Browser, address: str) -> None:
    """It shows one of the two pictures, and inverts drawings."""
    dark = browser.new_page(color_scheme="dark")
    dark.goto(f"{address}/docs/explain/flights.html")

    expect(dark.locator("a.only-dark img").first).to_be_visible()
    expect(dark.locator("a.only-light img").first).to_be_hidden()
    dark.close()


FIND_BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("name", ["noted_time", "writer_client", "noted_time_extensions/files"])
def test_reference_is_in_the_frame_of_the_site(page: Page, address: str, name: str) -> None:
    """It has the scheme that was chosen there, the search, and the navigation back."""
    site_page = f"{address}/docs/reference/python.html"
    page.goto(site_page)
    page.get_by_title("Switch to light mode").click()
    page.get_by_title("Switch to dark mode").click()
    site_background = page.evaluate(FIND_BACKGROUND)
    page.goto(f"{address}/python/{name}.html")
    background = page.evaluate(FIND_BACKGROUND)

    expect(page.get_by_role("button", name="Search")).to_be_visible()
    page.get_by_role("link", name="All names", exact=True).first.click()
    expect(page).to_have_url(site_page)
    assert background == site_background


def open_first_result(page: Page, address: str, words: str) -> None:
    """Search the site for words."""
    page.goto(f"{address}/index.html")
    page.get_by_role("button", name="Search").click()
    field = page.get_by_role("combobox", name="Search")
    field.fill(words)
    expect(page.get_by_text(re.compile(r"^\d+ results?$"))).to_be_visible()
    field.press("Enter")


@pytest.mark.parametrize(
    ("name", "anchor"),
    [
        ("read_noted_kafka", "spark_integration.html#read_noted_kafka"),
        ("KafkaNotedProducer.note_time", "writer_client.html#KafkaNotedProducer.note_time"),
    ],
)
def test_search_finds_a_name(page: Page, address: str, name: str, anchor: str) -> None:
    """The first result is its section of the reference."""
    path, _, fragment = anchor.partition("#")
    open_first_result(page, address, name)

    expect(page).to_have_url(
        re.compile(rf"/python/{re.escape(path)}(\?.*)?#{re.escape(fragment)}$")
    )


@pytest.mark.parametrize("word", ["cut", "segment", "quiet"])
def test_search_lists_the_glossary_first(page: Page, address: str, word: str) -> None:
    """Names of calls and of the Python interface that have the word follow."""
    open_first_result(page, address, word)

    expect(page).to_have_url(re.compile(r"/docs/reference/glossary\.html"))


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["writer_client", "spark_integration"])
def test_reference_does_not_scroll_sideways(
    page: Page, address: str, name: str, width: int
) -> None:
    """Signatures break, on a phone, too."""
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{address}/python/{name}.html")
    hidden = page.locator("html, article .member").evaluate_all(
        "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth).length"
    )

    assert hidden == 0


def test_runbooks_link_to_the_served_site(site: Path, tmp_path: Path) -> None:
    """Each to the section of its alert."""
    rules = (site / "docs" / "reference" / "alerts.yml").read_text()
    alerts = tmp_path / "alerts.yml"
    alerts.write_text(rules)
    link_runbooks(alerts, "https://docs.example/")
    page = "https://docs.example/docs/reference/monitoring.html#"
    linked_sections = re.findall(rf"runbook_url: {page}(\S+)", alerts.read_text())
    sections = Built((site / "docs" / "reference" / "monitoring.html").read_text()).anchors

    assert (len(linked_sections), set(linked_sections) - sections) == (
        rules.count("runbook: "),
        set(),
    )
