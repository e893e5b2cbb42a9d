from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cli.conftest import Commands

if TYPE_CHECKING:
    from collections.abc import Iterator

TEN = 1_357_034_400_000
UA = {
    "writer": "UA",
    "state": "live",
    "times": {"default": TEN},
    "position": {"0": 120},
    "noted_at": TEN,
    "holding_since": TEN,
}
HELD = {
    "decision": "hold",
    "lower": TEN,
    "next_lower": None,
    "waiting_for": [{"writer": "UA", "time": TEN, "held_for_ms": 5000, "times_out_in_ms": None}],
    "holders": 1,
    "lower_without": {"UA": TEN + 60_000},
}
WOULD = {"decision": "advance", "lower": TEN + 60_000, "cut": {"0": 120}, "excluded": ["UA"]}
WENT_ON = {
    "at": TEN,
    "from": None,
    "to": TEN,
    "writers": [
        {"writer": "UA", "time": None, "position": {}, "reason": "timed_out", "late": None},
        {"writer": "DL", "time": 5, "position": {"1": 4}, "reason": "removed", "late": None},
    ],
    "by": "5b1f0c2d9e7a",
}
UNKNOWN = {"type": "urn:noted-time:problem:unknown_writer", "title": "Unknown writer"}


class Stub(ThreadingHTTPServer):
    """Answers as a controller's operator routes do, and remembers what changes something."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.changes: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, list[str]]] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    """One request."""

    server: Stub

    def do_GET(self) -> None:
        """Answer from the table, by the last word of the path."""
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        self.server.queries.append(query)
        if not parts.path.startswith("/v1"):
            self.reply(404, "there is nothing here")
            return
        below = parts.path.removeprefix("/v1/streams/flights")
        entries = (
            [{"seq": seq, **WENT_ON} for seq in (1, 2) if seq > int(query["after"][0])]
            if below == "/ledger"
            else []
        )
        answers: dict[str, Any] = {
            "": {"domains": ["default"]},
            "/explain": HELD | ({"would": WOULD} if "exclude" in query else {}),
            "/writers/UA": UA,
            "/ledger": {
                "entries": entries[:1],
                "next": entries[0]["seq"] if len(entries) > 1 else None,
            },
        }
        self.reply(*((200, answers[below]) if below in answers else (404, UNKNOWN)))

    def do_POST(self) -> None:
        """Take a hold."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.changes.append(("POST", self.path, body))
        self.reply(200, UA)

    def do_DELETE(self) -> None:
        """Remove a writer, or end its hold."""
        self.server.changes.append(("DELETE", self.path, None))
        self.reply(200, UA)

    def reply(self, status: int, body: object) -> None:
        """Send JSON."""
        sent = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        """Be silent."""


@pytest.fixture
def stub() -> Iterator[Stub]:
    """Serve the stub."""
    with Stub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def run(stub: Stub) -> Commands:
    """Run commands against the stub."""
    return Commands(stub.url)


def test_remove_shows_what_would_follow_and_asks(run: Commands, stub: Stub) -> None:
    """Where nobody can be asked, nothing is removed."""
    refused = run("remove", "flights", "UA")

    assert (refused.status, refused.err.splitlines(), stub.changes) == (
        2,
        [
            (
                "flights (default) holds at 2013-01-01T10:00:00Z: it waits for 1 writer. "
                "Then it would advance to 2013-01-01T10:01:00Z, without UA."
            ),
            "noted-time: there is no terminal to ask for confirmation on: say --yes",
        ],
        [],
    )


def test_remove_goes_on_after_yes(run: Commands, stub: Stub) -> None:
    """And says at which position the writer was left."""
    removed = run("remove", "flights", "UA", "--yes")

    assert (removed.status, removed.err.splitlines()[-1], stub.changes) == (
        0,
        "UA is removed from flights, at position 0:120.",
        [("DELETE", "/v1/streams/flights/writers/UA", None)],
    )


def test_an_unknown_writer_is_not_removed(run: Commands, stub: Stub) -> None:
    """It is looked up before anything is asked."""
    refused = run("remove", "flights", "AU", "--yes")

    told = "404 Unknown writer" in refused.err
    assert (refused.status, told, stub.changes) == (1, True, [])


def test_hold_keeps_a_writer_for_a_duration(run: Commands, stub: Stub) -> None:
    """And `--release` ends it."""
    held = run("hold", "flights", "UA", "--for", "90m")
    released = run("hold", "flights", "UA", "--release")

    assert (held.err, released.err, stub.changes) == (
        "flights waits for UA for 90m, whatever its timeout.\n",
        "The timeout of UA counts again.\n",
        [
            ("POST", "/v1/streams/flights/writers/UA/hold", {"for_ms": 5_400_000}),
            ("DELETE", "/v1/streams/flights/writers/UA/hold", None),
        ],
    )


@pytest.mark.parametrize("options", [[], ["--for", "1h", "--release"]])
def test_hold_is_for_a_while_or_released(run: Commands, stub: Stub, options: list[str]) -> None:
    """One of the two has to be said."""
    refused = run("hold", "flights", "UA", *options)

    told = "say either --for DURATION or --release" in refused.err
    assert (refused.status, told, stub.changes) == (2, True, [])


def test_the_ledger_has_a_row_for_each_writer(run: Commands) -> None:
    """Of all pages."""
    shown = run("ledger", "flights")

    rest = ["2013-01-01T10:00:00Z", "-", "2013-01-01T10:00:00Z"]
    by = "5b1f0c2d9e7a"
    assert shown.table[1:] == [
        row
        for seq in ("1", "2")
        for row in (
            [seq, *rest, "UA", "timed_out", "-", "-", by],
            [seq, *rest, "DL", "removed", "5", "1:4", by],
        )
    ]


def test_the_ledger_says_how_to_go_on(run: Commands) -> None:
    """Beyond the limit."""
    shown = run("ledger", "flights", "--limit", "1")

    assert shown.err == "There is more: noted-time ledger flights --after 1\n"


def test_explain_tries_what_is_asked(run: Commands, stub: Stub) -> None:
    """The dry run's answer is in the last sentence; a member without a timeout never times out."""
    options = ["--exclude", "UA", "--exclude", "DL", "--writer-timeout", "5m"]
    shown = run("explain", "flights", *options)

    held = ["UA", "2013-01-01T10:00:00Z", "5s", "never", "2013-01-01T10:01:00Z"]
    would = ["Then it would advance to 2013-01-01T10:01:00Z, without UA."]
    asked = {"exclude": ["UA", "DL"], "writer_timeout_ms": ["300000"]}
    assert (shown.table[2:], stub.queries) == ([held, would], [asked])


def test_one_writer_can_be_shown(run: Commands) -> None:
    """By its name."""
    shown = run("writers", "flights", "UA")

    assert shown.table[1][:4] == ["UA", "live", "default=2013-01-01T10:00:00Z", "0:120"]


def test_what_is_no_controller_is_named(run: Commands, stub: Stub) -> None:
    """An answer that is no problem document of ours is no answer of a controller's."""
    shown = run("stream", "show", "flights", "--url", f"{stub.url}/elsewhere")

    says = f"noted-time: what answers at {stub.url}/elsewhere is no controller: status 404\n"
    assert (shown.status, shown.err) == (1, says)
