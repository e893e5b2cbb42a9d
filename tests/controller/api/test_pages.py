"""The pages for people: files of the package, and the description of the API."""

import gzip
import re
import subprocess
import sys
from html import escape
from html.parser import HTMLParser
from importlib.resources import files
from threading import current_thread, main_thread
from typing import Any

import pytest

from controller.api.app import Api, create_api
from controller.api.gate.access import needed
from controller.api.pages import assets as pages
from controller.api.pages.api_page import api_page
from controller.service.controller import Controller
from controller.store.memory import MemoryStore
from tests.support.http import Caller, problem
from tests.support.processes import environment

MOST_BYTES = 30_000
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
ASSETS = f"/assets/{pages.VERSION}"
TYPES = {
    "/": "text/html; charset=utf-8",
    "/docs": "text/html; charset=utf-8",
    f"{ASSETS}/dashboard.css": "text/css; charset=utf-8",
    f"{ASSETS}/dashboard.js": "text/javascript; charset=utf-8",
    f"{ASSETS}/favicon.svg": "image/svg+xml",
}
MODULES = {f"{ASSETS}/{name}" for name in pages.FILES if name.endswith(".js")}
VOID = {"meta", "link", "br", "input", "hr", "img"}


class Balanced(HTMLParser):
    """Reads a page, and finds what is not closed and what leads elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember the element and where it leads."""
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in {"href", "src"} and value is not None:
                self.links.add(value)
            if name == "id" and value is not None:
                self.ids.add(value)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost one."""
        assert self.open.pop() == tag


def test_every_page_is_one_of_these() -> None:
    """And the modules beside `dashboard.js`, which are served like it."""
    assert set(TYPES) | MODULES == pages.PATHS


@pytest.mark.parametrize("path", TYPES)
async def test_a_page_is_served_with_headers_that_bind_it(call: Caller, path: str) -> None:
    """To this origin and its own type; what no version changes need not be asked for again."""
    answer = await call.get(path)

    names = ["content-type", "cache-control", "content-security-policy"]
    names += ["referrer-policy"]
    found = [answer.headers.get(name) for name in names]
    caching = "no-cache" if path in {"/", "/docs"} else "public, max-age=31536000, immutable"
    assert (answer.status_code, found) == (
        200,
        [TYPES[path], caching, POLICY, "no-referrer"],
    )


@pytest.mark.parametrize("path", TYPES)
async def test_what_a_browser_has_already_is_not_sent_again(call: Caller, path: str) -> None:
    """The tag shows it, weakened by a proxy or not; another tag gets the page."""
    tag = (await call.get(path)).headers["etag"]
    shown = [tag, f"W/{tag}", f'"x", {tag}', '"x"']
    answers = [
        await call.client.request("GET", path, headers={"if-none-match": each}) for each in shown
    ]

    assert [(each.status_code, bool(each.content)) for each in answers] == [
        (304, False),
        (304, False),
        (304, False),
        (200, True),
    ]
    assert {each.headers["content-security-policy"] for each in answers} == {POLICY}


@pytest.mark.parametrize("path", TYPES)
async def test_a_page_is_only_looked_at(call: Caller, path: str) -> None:
    """By GET and HEAD; its query means nothing."""
    statuses = [
        (await call.client.request(method, path)).status_code
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE")
    ]
    queried = await call.get(path, whatever=1)

    assert (statuses, queried.status_code) == ([200, 200, 405, 405, 405], 200)


async def test_pages_do_not_wait_for_the_database(call: Caller) -> None:
    """The page then says that the controller does not answer."""
    call.controller._committer.ready = False
    answers = [await call.get(path) for path in TYPES]
    refused = await call.get("/v1/streams/s")

    assert {each.status_code for each in answers} == {200}
    assert problem(refused)[0] == 503


async def test_what_is_beside_the_files_is_not_served(call: Caller) -> None:
    """Only the names that are listed are."""
    paths = ["/index.html", "/../pages.py", "/dashboard.css", "/assets/dashboard.css", "/docs/"]
    paths += [f"{ASSETS}/{each}" for each in ("index.html", "../pages.py", "dashboard.css/")]
    answers = [await call.get(path) for path in paths]

    assert [each.status_code for each in answers] == [404] * len(paths)


@pytest.mark.parametrize("page", ["/", "/docs"])
async def test_a_page_names_files_of_its_own_version_alone(call: Caller, page: str) -> None:
    """A browser never mixes modules: another version's path is not found, nor asks for a token."""
    links = {f"/{each}" for each in Balanced((await call.get(page)).text).links if "/" in each}
    assets = {each for each in links if each.startswith("/assets/")}
    others = [each.replace(pages.VERSION, "0123456789abcdef") for each in assets]
    answers = [await call.get(path) for path in others]

    assert assets <= pages.PATHS
    assert {each.status_code for each in answers} == {404}
    assert {str(needed("GET", path)) for path in others} == {"nothing"}


def test_all_files_of_the_page_are_small() -> None:
    """Together, each compressed: readable lines and comments cost next to nothing."""
    found = [
        each.read_bytes() for each in files("controller.api.pages").joinpath("dashboard").iterdir()
    ]

    assert sum(len(gzip.compress(each)) for each in found) < MOST_BYTES
    assert sorted(found) == sorted(pages.FILES.values())


async def test_the_page_loads_nothing_from_elsewhere(call: Caller) -> None:
    """Neither do its style and its program, nor the description of the API."""
    texts = [(await call.get(path)).text for path in pages.PATHS]

    addresses = {
        found
        for text in texts
        for found in re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", text)
    }
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}


async def test_the_api_is_described_when_a_controller_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a thread, as that takes half a second in which no note would be answered."""
    threads = []

    def described(_: Api) -> dict[str, Any]:
        threads.append(current_thread())
        return {
            "info": {"title": "", "description": ""},
            "paths": {},
            "components": {"schemas": {}},
        }

    monkeypatch.setattr(Api, "document", None)
    monkeypatch.setattr(Api, "_described", described)
    api = create_api(Controller(MemoryStore()))
    async with api.router.lifespan_context(api):
        pass

    assert [thread is main_thread() for thread in threads] == [False]


def test_describing_the_api_leaves_the_log_alone() -> None:
    """Whatever other threads do to the filters of warnings, which FastAPI relies on."""
    program = """
import warnings
from controller.api.app import create_api
from controller.service.controller import Controller
from controller.store.memory import MemoryStore
def lost(action, category=Warning, **_):
    item = (action, None, category, None, 0)
    while item in warnings.filters:
        warnings.filters.remove(item)
warnings.simplefilter = lost
create_api(Controller(MemoryStore())).openapi()
"""
    words = [sys.executable, "-W", "default", "-c", program]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)

    assert done.stderr == ""


async def test_the_description_has_every_operation(call: Caller) -> None:
    """With its path, its fields and their bounds; without a script, and closed when it opens."""
    text = (await call.get("/docs")).text
    document = (await call.get("/openapi.json")).json()
    page = Balanced(text)
    operations = {
        (method.upper(), path, operation["operationId"])
        for path, found in document["paths"].items()
        for method, operation in found.items()
    }

    shown = {
        each for each in operations if f"<b>{each[0]}</b> <code>{escape(each[1])}</code>" in text
    }
    assert (shown, page.ids) == (operations, {each[2] for each in operations})
    assert ("script" in page.tags, "style" in page.tags, page.open) == (False, False, [])
    assert {f"#{each}" for each in page.ids} < page.links
    for phrase in ("notes.late.least", "at most 1000", "integer or null", "live | idle | finished"):
        assert phrase in text


def test_the_description_escapes_everything_in_the_document() -> None:
    """In every place that it takes text from."""
    evil = "<script>alert('\"&')</script>"
    kind: dict[str, Any] = {"type": evil, "description": evil, "enum": [evil], "default": evil}
    shape = {"properties": {evil: kind}, "required": [evil]}
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{evil}"}}}
    operation = {
        "tags": [evil],
        "operationId": evil,
        "description": evil,
        "parameters": [{"name": evil, "in": evil, "schema": kind, "description": evil}],
        "requestBody": {"content": content},
        "responses": {"200": {"content": content}, "404": {"description": evil}},
    }
    document = {
        "info": {"title": evil, "description": evil},
        "paths": {f"/{evil}": {"get": operation}},
        "components": {"schemas": {evil: shape}},
    }

    text = api_page(document)

    page = Balanced(text)
    assert ("script" in page.tags, page.ids, "<script" in text) == (False, {evil}, False)
    assert text.count(escape(evil)) > 10


def test_a_schema_that_contains_itself_is_described_once() -> None:
    """A description ends."""
    tree = {"properties": {"left": {"$ref": "#/components/schemas/Tree"}}}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}
    operation = {"operationId": "grow", "responses": {"200": {"content": content}}}
    document = {
        "info": {"title": "t"},
        "paths": {"/": {"get": operation}},
        "components": {"schemas": {"Tree": tree}},
    }

    assert api_page(document).count("<code>left</code>") == 1
