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
    "excluded": None,
}
HELD = {
    "decision": "hold",
    "lower": TEN,
    "next_lower": None,
    "waiting_for": [{"writer": "UA", "time": TEN, "held_for_ms": 5000, "times_out_in_ms": None}],
    "holders": 1,
    "lower_without": {"UA": TEN + 60_000},
    "hints": [],
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
MEANWHILE = {
    "type": "urn:noted-time:problem:noted_meanwhile",
    "title": "Noted meanwhile",
    "writer": "UA",
    "noted_at": TEN + 1000,
}
DRY_RUN = [
    (
        "flights (default) holds at 2013-01-01T10:00:00Z: it waits for 1 writer. "
        "Then it would advance to 2013-01-01T10:01:00Z, without UA."
    ),
    "UA noted last at 2013-01-01T10:00:00Z.",
]
REMOVE = f"/v1/streams/flights/writers/UA?unless_noted_since={TEN}"
SETTINGS = {"was": {"domains": ["a"], "writer_timeout_ms": 5000}, "by": "5b1f0c2d9e7a"}
CHANGES = [
    {"number": 3, "at": TEN, "action": "settings", "writer": None, "comment": "slow"} | SETTINGS,
    {"number": 2, "at": TEN, "action": "released", "writer": "UA", "by": None, "comment": None},
    {"number": 1, "at": TEN, "action": "truncated", "writer": None, "by": None, "comment": None},
]
UNKNOWN = {
    "type": "urn:noted-time:problem:unknown_writer",
    "title": "Unknown writer",
    "writer": "AU",
}


class Stub(ThreadingHTTPServer):
    """Answers as a controller's operator routes do, and remembers what changes something."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.changes: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, list[str]]] = []
        self.noting = 0
        """So many removals are refused, as the writer notes meanwhile."""

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
            "/writers": {
                "writers": [UA],
                "states": {"live": 1, "idle": 0, "finished": 0, "excluded": 0},
                "now": TEN,
                "next": None,
            },
            "/writers/UA": UA,
            "/changes": self.changes(int(query.get("before", ["4"])[0])),
            "/ledger": {
                "entries": entries[:1],
                "next": entries[0]["seq"] if len(entries) > 1 else None,
            },
        }
        self.reply(*((200, answers[below]) if below in answers else (404, UNKNOWN)))

    def changes(self, before: int) -> dict[str, Any]:
        """Return the page of one change that comes next."""
        became = {3: {"domains": ["a", "b"], "writer_timeout_ms": 60_000}, 1: {"cut": {"0": 7}}}
        older = [each for each in CHANGES if before > int(str(each["number"]))]
        found = [{"was": None, **each, "is": became.get(before - 1)} for each in older[:1]]
        return {"changes": found, "next": before - 1 if len(older) > 1 else None}

    def do_POST(self) -> None:
        """Take a hold."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.changes.append(("POST", self.path, body))
        self.reply(200, UA)

    def do_DELETE(self) -> None:
        """Remove a writer, or end its hold."""
        self.server.changes.append(("DELETE", self.path, None))
        if self.server.noting:
            self.server.noting -= 1
            self.reply(409, MEANWHILE)
        else:
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
            *DRY_RUN,
            "noted-time: there is no terminal to ask for confirmation on: use --yes",
        ],
        [],
    )


def test_remove_goes_on_after_yes(run: Commands, stub: Stub) -> None:
    """And says at which position the writer was left."""
    removed = run("remove", "flights", "UA", "--yes")

    assert (removed.status, removed.err.splitlines()[-1], stub.changes) == (
        0,
        "UA is removed from flights, at position 0:120.",
        [("DELETE", REMOVE, None)],
    )


def test_remove_shows_again_what_would_follow_where_the_writer_noted(
    run: Commands, stub: Stub
) -> None:
    """It is removed as it was seen last."""
    stub.noting = 1
    removed = run("remove", "flights", "UA", "--yes", "--comment", "its machine is gone")

    again = "UA has noted meanwhile, at 2013-01-01T10:00:01Z."
    done = "UA is removed from flights, at position 0:120."
    path = f"{REMOVE}&comment=its+machine+is+gone"
    assert (removed.status, removed.err.splitlines(), stub.changes) == (
        0,
        [*DRY_RUN, again, *DRY_RUN, done],
        [("DELETE", path, None)] * 2,
    )


def test_remove_gives_up_on_a_writer_that_goes_on_noting(run: Commands, stub: Stub) -> None:
    """After three times where nobody is asked."""
    stub.noting = 9
    refused = run("remove", "flights", "UA", "--yes")

    told = refused.err.splitlines()[-1]
    assert (refused.status, len(stub.changes), told) == (
        1,
        3,
        "noted-time: writer 'UA' has noted meanwhile; look again before you remove it",
    )


def test_an_unknown_writer_is_not_removed(run: Commands, stub: Stub) -> None:
    """It is looked up before anything is asked."""
    refused = run("remove", "flights", "AU", "--yes")

    told = "there is no writer 'AU'" in refused.err
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

    told = "use either --for DURATION or --release" in refused.err
    assert (refused.status, told, stub.changes) == (2, True, [])


def test_a_hold_takes_a_reason(run: Commands, stub: Stub) -> None:
    """And so does its end."""
    run("hold", "flights", "UA", "--for", "1h", "--comment", "patience")
    run("hold", "flights", "UA", "--release", "--comment", "enough")

    hold = "/v1/streams/flights/writers/UA/hold?comment="
    assert [(method, path) for method, path, _ in stub.changes] == [
        ("POST", f"{hold}patience"),
        ("DELETE", f"{hold}enough"),
    ]


def test_changes_are_listed_from_all_pages(run: Commands) -> None:
    """The newest first, in words."""
    shown = run("changes", "flights")

    at = "2013-01-01T10:00:00Z"
    what = "domains: a → a, b; writer_timeout_ms: 5s → 1m"
    assert shown.table == [
        ["number", "at", "action", "writer", "what", "by", "comment"],
        ["3", at, "settings", "-", what, "5b1f0c2d9e7a", "slow"],
        ["2", at, "released", "UA", "-", "-", "-"],
        ["1", at, "truncated", "-", "up to 0:7", "-", "-"],
    ]


def test_changes_say_how_to_go_on(run: Commands) -> None:
    """Beyond the limit; `--before` begins there."""
    shown = run("changes", "flights", "--limit", "1")
    rest = run("changes", "flights", "--before", "3", "--json")

    assert shown.err == "There is more: noted-time changes flights --before 3\n"
    assert [each["number"] for each in rest.json["changes"]] == [2, 1]


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
    says = "It advances when UA notes a later time, and not before: no writer times out."
    assert (shown.table[-2:], stub.queries[0]) == ([held, would], asked)
    assert says in shown.out.splitlines()


def test_one_writer_can_be_shown(run: Commands) -> None:
    """By its name."""
    shown = run("writers", "flights", "UA")

    assert shown.table[1][:4] == ["UA", "live", "default=2013-01-01T10:00:00Z", "0:120"]


def test_what_is_no_controller_is_named(run: Commands, stub: Stub) -> None:
    """An answer that is no problem document of ours is no answer of a controller's."""
    shown = run("stream", "show", "flights", "--url", f"{stub.url}/elsewhere")

    says = f"noted-time: {stub.url}/elsewhere is not a noted-time controller (HTTP 404)\n"
    assert (shown.status, shown.err) == (1, says)
