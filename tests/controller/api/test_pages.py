"""The files of the dashboard, and the description of the API."""

import gzip
import re
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from threading import Barrier, Thread, current_thread, main_thread
from typing import Any

import pytest

from controller.api.app import Api, create_api
from controller.api.gate.access import find_need
from controller.api.pages import assets as pages
from controller.api.pages import calls
from controller.service.controller import Controller
from noted_time.values import LEAST_LEAD_MS
from tests.support.http import Caller, problem
from tests.support.processes import run_python
from tools.trials.memory_store import MemoryStore

MOST_BYTES = 40_000
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
ASSETS = f"/assets/{pages.ASSETS_VERSION}"
TYPES = {
    "/": "text/html; charset=utf-8",
    f"{ASSETS}/dashboard.css": "text/css; charset=utf-8",
    f"{ASSETS}/dashboard.js": "text/javascript; charset=utf-8",
    f"{ASSETS}/favicon.svg": "image/svg+xml",
}
MODULES = {f"{ASSETS}/{name}" for name in pages.DASHBOARD_FILES if name.endswith(".js")}
LINK = re.compile(r'(?:href|src)="([^"]*)"')


def test_table_of_pages_is_complete() -> None:
    assert set(TYPES) | MODULES == pages.PAGE_PATHS


@pytest.mark.parametrize("path", TYPES)
async def test_pages_have_safe_headers_and_allow_only_reads(call: Caller, path: str) -> None:
    answer = await call.get(path, whatever=1)

    assert answer.status_code == 200
    assert (await call.client.request("HEAD", path)).status_code == 200
    for method in ("POST", "PUT", "DELETE"):
        assert (await call.client.request(method, path)).status_code == 405
    caching = "no-cache" if path == "/" else "public, max-age=31536000, immutable"
    assert answer.headers["content-type"] == TYPES[path]
    assert answer.headers["cache-control"] == caching
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_docs_lists_each_call_without_script(call: Caller) -> None:
    """It needs no token and no other host. Its relative URLs work below the path of a proxy."""
    answer = await call.get("/docs")
    document = (await call.get("/openapi.json")).json()
    headers = ("content-type", "cache-control", "content-security-policy", "referrer-policy")
    links = {link for link in LINK.findall(answer.text) if not link.startswith("#")}

    assert [answer.headers.get(name) for name in headers] == [
        *("text/html; charset=utf-8", "no-cache", POLICY, "no-referrer")
    ]
    assert "<script" not in answer.text
    assert {link.removeprefix(ASSETS[1:]) for link in links} == {
        *("/favicon.svg", "/dashboard.css", "./", "docs", "openapi.json")
    }
    text = unescape(answer.text)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert f"<h2><code>{method.upper()} {path}</code></h2>" in text
            assert f'<section id="{operation["operationId"]}"' in text
            for parameter in operation.get("parameters", []):
                assert f"<code>{parameter['name']}</code>" in text
    assert str(find_need("GET", "/docs")) == "nothing"


COMMAND = re.compile(r"<code>(curl .*?)</code>", re.DOTALL)

REFUSED = {"not_found", "method_not_allowed", "invalid_request", "malformed_json"}


async def test_each_command_of_docs_is_a_valid_call(call: Caller) -> None:
    """They are played against a stream that the examples fit."""
    commands = COMMAND.findall(unescape((await call.get("/docs")).text))
    document = (await call.get("/openapi.json")).json()
    assert len(commands) == sum(map(len, document["paths"].values()))
    for command in commands:
        options = {"-X": "", "--json": ""}
        words = shlex.split(command)[1:]
        for option in options:
            if option in words:
                place = words.index(option)
                options[option] = words[place + 1]
                del words[place : place + 2]
        (url,) = words
        body = options["--json"]
        method = options["-X"] or ("POST" if body else "GET")
        await call.client.put("/v1/streams/flights", json={})
        await call.client.post("/v1/streams/flights/notes", json={"notes": [{"writer": "UA"}]})
        path = url.removeprefix("$NOTED_TIME_URL")
        json_head = {"Content-Type": "application/json"} if body else {}
        answer = await call.client.request(method, path, content=body or None, headers=json_head)

        assert answer.is_success or answer.json()["code"] not in REFUSED, (command, answer.text)


class TagParser(HTMLParser):
    """Collects the names of elements."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - its signature
        self.tags.add(tag)


def test_docs_shows_markup_unchanged() -> None:
    """Neither the description of a call nor the address of the controller becomes an element."""
    markup = '<b class=hostile>`<i>`"&'
    operation = {
        "operationId": markup,
        "summary": markup,
        "description": markup,
        "tags": [markup],
        "parameters": [
            {"name": markup, "in": markup, "description": markup, "schema": {"type": markup}}
        ],
    }
    document = {
        "info": {"description": markup},
        "paths": {f"/{markup}": {"get": operation}},
        "components": {"schemas": {}},
        "security": [{"token": []}],
    }
    page = calls.write_page(document, "assets/", f"http://{markup}")
    parser = TagParser()
    parser.feed(page)

    assert "hostile" in page
    assert ("code" in parser.tags, parser.tags & {"b", "i"}) == (True, set())
    assert "export TOKEN=nt_" in page
    assert '-H "Authorization: Bearer $TOKEN"' in unescape(page)


async def test_pages_do_not_wait_for_database(call: Caller) -> None:
    call.controller._committer.ready = False

    for path in TYPES:
        assert (await call.get(path)).status_code == 200
    refusal = await call.get("/v1/streams/s")
    assert problem(refusal)[0] == 503


async def test_other_files_are_not_served(call: Caller) -> None:
    paths = ["/index.html", "/../pages.py", "/dashboard.css", "/assets/dashboard.css"]
    paths += [f"{ASSETS}/index.html", f"{ASSETS}/../pages.py", f"{ASSETS}/dashboard.css/"]

    for path in paths:
        assert (await call.get(path)).status_code == 404, path


async def test_page_links_only_files_of_its_version(call: Caller) -> None:
    """A browser never mixes modules of two versions."""
    links = {f"/{link}" for link in LINK.findall((await call.get("/")).text) if "/" in link}
    assets = {link for link in links if link.startswith("/assets/")}

    assert assets
    assert assets <= pages.PAGE_PATHS
    for path in assets:
        other_path = path.replace(pages.ASSETS_VERSION, "0123456789abcdef")
        assert (await call.get(other_path)).status_code == 404
        assert str(find_need("GET", other_path)) == "nothing"


def test_page_has_the_lead_that_hints_have() -> None:
    """A watermark and a writer are ahead of the clock from the same lead on."""
    values = pages.DASHBOARD_FILES["values.js"].decode()

    assert f"const LEAST_LEAD = {LEAST_LEAD_MS};" in values


def test_files_of_page_are_small() -> None:
    dashboard = files("controller.api.pages").joinpath("dashboard")
    contents = [file.read_bytes() for file in dashboard.iterdir()]

    assert sum(len(gzip.compress(content)) for content in contents) < MOST_BYTES
    assert sorted(contents) == sorted(pages.DASHBOARD_FILES.values())


@pytest.fixture
def described_by(monkeypatch: pytest.MonkeyPatch) -> list[Thread]:
    """The threads that build the description, each for a moment."""
    threads = []

    def describe(_: Api) -> dict[str, Any]:
        threads.append(current_thread())
        time.sleep(0.05)
        return {}

    monkeypatch.setattr(Api, "document", None)
    monkeypatch.setattr(Api, "_build_document", describe)
    return threads


async def test_api_is_described_when_controller_starts(described_by: list[Thread]) -> None:
    """A thread builds the description, because it takes half a second."""
    api = create_api(Controller(MemoryStore()))
    async with api.router.lifespan_context(api):
        pass

    (thread,) = described_by
    assert thread is not main_thread()


def test_concurrent_calls_build_one_description(described_by: list[Thread]) -> None:
    """The first call and the thread ask at once."""
    both = Barrier(2)
    api = create_api(Controller(MemoryStore()))

    def ask() -> dict[str, Any]:
        both.wait()
        return api.openapi()

    with ThreadPoolExecutor(2) as threads:
        document = threads.submit(ask)
        other_document = threads.submit(ask)

    assert len(described_by) == 1
    assert document.result() == other_document.result()


def test_describing_api_logs_nothing() -> None:
    """Other threads may change the filters of warnings."""
    program = """
import warnings
from controller.api.app import create_api
from controller.service.controller import Controller
from tools.trials.memory_store import MemoryStore
def lost(action, category=Warning, **_):
    item = (action, None, category, None, 0)
    while item in warnings.filters:
        warnings.filters.remove(item)
warnings.simplefilter = lost
create_api(Controller(MemoryStore())).openapi()
"""
    process = run_python("-W", "default", "-c", program)

    assert (process.returncode, process.stderr) == (0, "")
