"""Two replicas that share the streams: whichever is asked, the answers are the same."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import msgspec
import pytest

from controller.api.frames import MEDIA_TYPE, Item, answers_of, frame_of
from controller.api.front import MAX_FRAME
from controller.api.notes import NOT_MINE
from controller.store.leases import LEASE_MS
from reader_client import ReaderClient
from tests.replicas.served import (
    HTTP,
    has,
    lowers,
    make,
    note,
    seconds_until,
    shared,
    stream_of,
)
from tests.support.processes import ServeProcess
from tests.support.transcript import examples, steady
from writer_client import WriterClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.postgres import Server

pytestmark = pytest.mark.acceptance

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
BINDING = "http://127.0.0.1:7464"
PROXIES: dict[str, Any] = {
    **dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:1"),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), ""),
}
"""Of the environment in which the replicas run: for everything, and they lead nowhere."""


class Two(NamedTuple):
    """Two replicas of one database."""

    a: ServeProcess
    b: ServeProcess

    def by_owner(self, stream: str) -> tuple[ServeProcess, ServeProcess]:
        """Return the one that has the stream, then the other."""
        return (self.a, self.b) if has(self.a, stream) else (self.b, self.a)


@pytest.fixture(scope="module")
def two(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Two replicas that were started at once on a database with nothing in it, not even tables."""
    url, directory = server.make_database(), tmp_path_factory.mktemp("two")
    with (
        ServeProcess(directory, "--database", url, **PROXIES) as a,
        ServeProcess(directory, "--database", url, **PROXIES) as b,
    ):
        for each in (a, b):
            each.ready()
        shared(a, b)
        yield Two(a, b)


@pytest.fixture
def owner(two: Two) -> ServeProcess:
    """The replica that has the stream `name`."""
    return two.a


@pytest.fixture
def other(two: Two) -> ServeProcess:
    """The replica that has not."""
    return two.b


@pytest.fixture
def name(owner: ServeProcess, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a stream that marks every advance, removed afterwards."""
    made = stream_of(owner, re.sub(r"\W", "-", request.node.name)[:100])
    make(owner, made)
    yield made
    HTTP.delete(f"{owner.url}/v1/streams/{made}")


# The same answers


@pytest.mark.parametrize("asked", ["owner", "other"])
def test_every_example_of_the_api_page_runs(two: Two, asked: str) -> None:
    """In the order of the page, with the answers that it shows, through either replica."""
    shown = examples(PAGE.read_text(encoding="utf-8"))
    owner, other = two.by_owner("flights")
    url = owner.url if asked == "owner" else other.url
    given = [
        subprocess.run(
            ["sh", "-c", command.replace("curl ", "curl -s ").replace(BINDING, url)],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout
        for command, _ in shown
    ]
    HTTP.delete(f"{url}/v1/streams/flights").raise_for_status()

    assert [steady(output) for output in given] == [steady(output) for _, output in shown]


Call = tuple[str, str, object]
RISING = [{"writer": "a", "time": n, "position": {"0": 10 * n}, "max_time": n + 3} for n in (5, 7)]
CALLS: list[Call] = [
    ("POST", "/notes", {"notes": [{"writer": "a"}]}),
    ("PUT", "", {"mark_interval_ms": 0, "keys": ["default", "order_time"]}),
    ("PUT", "", {"keys": ["default"]}),
    ("PUT", "", {"mark_interval_ms": -1}),
    ("GET", "", None),
    ("POST", "/notes", {"notes": [{"writer": "a"}, {"writer": "b", "time": 4}]}),
    ("POST", "/notes", {"notes": RISING}),
    ("POST", "/notes", {"notes": RISING[:1]}),
    ("POST", "/notes?whatever=1", {"notes": [{"writer": "b", "state": "idle"}]}),
    ("POST", "/notes", {"notes": [{"writer": "a", "key": "ship_time", "time": 1}]}),
    ("POST", "/notes", {"notes": [{"writer": "a", "key": "order_time", "time": 3}]}),
    ("POST", "/notes", {"notes": [{"writer": "b", "state": "left", "position": {"1": 2}}]}),
    ("POST", "/notes", {"notes": []}),
    ("POST", "/notes", {"note": []}),
    ("POST", "/notes", b"{"),
    ("POST", "/notes", b" " * (1024 * 1024 + 1)),
    ("POST", "/notes", {"notes": [{"writer": "a", "time": 9, "position": {"0": 90, "1": 5}}]}),
    ("GET", "/notes", None),
    ("GET", "/explain", None),
    ("GET", "/explain?key=order_time", None),
    ("GET", "/explain?key=ship_time", None),
    ("GET", "/writers?limit=1", None),
    ("GET", "/writers?start=1", None),
    ("GET", "/writers?limit=0", None),
    ("GET", "/marks", None),
    ("GET", "/marks?after=1&limit=1", None),
    ("GET", "/marks?key=order_time&wait_ms=10&after=9", None),
    ("GET", "/marks?key=ship_time", None),
    ("GET", "/marks?wait_ms=30001", None),
    ("GET", "/cut?complete_to=5", None),
    ("GET", "/cut?complete_to=500", None),
    ("POST", "/time-window", {"position": {"0": 70}}),
    ("POST", "/time-window", {"position": {"0": -1}}),
    ("PUT", "/reader-groups/g/readers/r", {"position": {"0": 70}}),
    ("PUT", "/reader-groups/g/readers/q", {"position": {"1": 1}}),
    ("GET", "/reader-groups/g", None),
    ("GET", "/reader-groups/h", None),
    ("POST", "/reader-groups/g/readers/r/offline", {"position": {"0": 50}}),
    ("POST", "/reader-groups/g/readers/x/offline", {"position": {}}),
    ("POST", "/scale", {"sealed": {"0": 90}, "created": {"2": [0], "3": [0]}}),
    ("POST", "/scale", {"sealed": {"9": 1}, "created": {}}),
    ("POST", "/time-window", {"position": {"2": 0}}),
    ("POST", "/truncate", {"cut": {"0": 70, "1": 5}}),
    ("GET", "/marks?after=1", None),  # others go on showing what is dropped for a while
    ("GET", "", None),
    ("PATCH", "", {}),
    ("GET", "/nothing", None),
    ("DELETE", "", None),
    ("DELETE", "", None),
    ("GET", "/marks", None),
    ("POST", "/notes", {"notes": [{"writer": "a"}]}),
    ("PUT", "", None),
    ("GET", "/marks", None),
    ("GET", "/writers", None),
    ("DELETE", "", None),
]


def told(replica: ServeProcess, stream: str, calls: list[Call]) -> list[object]:
    """Make the calls for a stream; returns of each its status, headers and what stays the same."""
    found: list[object] = []
    with httpx.Client(base_url=replica.url, timeout=20) as client:
        for method, path, body in calls:
            sent = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
            headers = {"content-type": "application/json"} if sent else {}
            answer = client.request(
                method, f"/v1/streams/{stream}{path}", content=sent, headers=headers
            )
            kept = sorted(set(answer.headers) - {"date", "connection", "server"})
            text = answer.text.replace(stream, "NAME")
            found.append((method, path, answer.status_code, kept, steady(text) if text else ""))
    return found


def test_every_call_is_answered_alike(owner: ServeProcess, other: ServeProcess) -> None:
    """Good and bad ones: status, headers and body are those that the owner itself would give."""
    streams = [stream_of(owner, prefix) for prefix in ("one", "two")]

    assert told(owner, streams[0], CALLS) == told(other, streams[1], CALLS)


def test_what_one_is_told_both_show(owner: ServeProcess, other: ServeProcess, name: str) -> None:
    """At once where the one that is asked was told, and soon at the other; to the last byte."""
    shown = []
    for noted, told_to, asked in ((5, owner, other), (7, other, owner), (9, other, other)):
        note(told_to, name, noted)
        seconds_until(lambda: lowers(asked, name)[-1][1] == noted)  # noqa: B023 - at once
    paths = ("", "/marks", "/cut?complete_to=6", "/explain", "/writers")
    for path in paths:
        answers = [HTTP.get(f"{each.url}/v1/streams/{name}{path}") for each in (owner, other)]
        shown.append([steady(answer.text) for answer in answers])

    assert [one == two for one, two in shown] == [True] * len(paths)
    assert lowers(other, name) == [(1, 5), (2, 7), (3, 9)]


def test_who_notes_where_the_stream_is_not_reads_its_mark_at_once(
    other: ServeProcess, name: str
) -> None:
    """The answer with the new lower came, so the mark is shown, without any wait."""
    with httpx.Client(base_url=f"{other.url}/v1/streams/{name}") as client:
        seen = []
        for noted in range(1, 41):
            client.post("/notes", json={"notes": [{"writer": "w", "time": noted}]})
            marks = client.get("/marks", params={"after": noted - 1}).json()["marks"]
            seen += [mark["lower"] for mark in marks]

    assert seen == list(range(1, 41))


def test_a_join_that_the_other_acknowledged_holds_time_at_once(
    owner: ServeProcess, other: ServeProcess, name: str
) -> None:
    """Whoever took it in: what is noted at the owner afterwards does not go beyond it."""
    note(owner, name, 5, "early")
    joined = note(other, name, None, "late")
    answer = HTTP.post(
        f"{owner.url}/v1/streams/{name}/notes", json={"notes": [{"writer": "early", "time": 9}]}
    )
    held = HTTP.get(f"{owner.url}/v1/streams/{name}/explain").json()["waiting_for"]

    assert (joined, answer.json()["results"], [each["writer"] for each in held]) == (
        200,
        [{"status": "accepted", "lower": 5}],
        ["late"],
    )


def test_the_list_of_streams_is_whole_through_both(two: Two) -> None:
    """Whoever made them and whoever has them, page by page."""
    names = [f"listed-{n:02}" for n in range(12)]
    for n, each in enumerate(names):
        make(two[n % 2], each)
    pages = [listed(replica, 5) for replica in two]
    for n, each in enumerate(names):
        HTTP.delete(f"{two[n % 2].url}/v1/streams/{each}").raise_for_status()

    assert [page & set(names) for page in pages] == [set(names)] * 2
    assert len({has(two.a, each) for each in names}) == 2


def listed(replica: ServeProcess, limit: int) -> set[str]:
    """Return the names of all streams that a replica lists, a page at a time."""
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        query = f"after={after}&limit={limit}"
        page = HTTP.get(f"{replica.url}/v1/streams?{query}").json()
        found += [each["name"] for each in page["streams"]]
        after = page["next"]
    assert found == sorted(set(found))
    return set(found)


def test_no_proxy_stands_between_replicas(other: ServeProcess, name: str) -> None:
    """Whatever their environment says of proxies: that is for calls that leave the site."""
    path = f"{other.url}/v1/streams/{name}/explain"

    assert (note(other, name, 5), HTTP.get(path).status_code) == (200, 200)


def test_a_stream_made_again_is_another_to_both(
    owner: ServeProcess, other: ServeProcess, name: str
) -> None:
    """Whoever removed it and whoever made it: its marks begin anew, under a new id."""
    first = HTTP.get(f"{other.url}/v1/streams/{name}").json()["id"]
    note(owner, name, 5)
    seconds_until(lambda: lowers(other, name) == [(1, 5)])
    HTTP.delete(f"{other.url}/v1/streams/{name}").raise_for_status()
    gone = [HTTP.get(f"{each.url}/v1/streams/{name}").status_code for each in (owner, other)]
    second = make(other, name)
    note(owner, name, 3)
    seconds_until(lambda: lowers(other, name) == [(1, 3)])
    ids = [HTTP.get(f"{each.url}/v1/streams/{name}").json()["id"] for each in (owner, other)]

    assert (gone, first != second, ids) == ([404, 404], True, [second, second])


# Readers


@pytest.mark.parametrize("noting", ["owner", "other"])
def test_a_poll_at_the_other_is_woken_by_a_note(
    owner: ServeProcess, other: ServeProcess, name: str, noting: str
) -> None:
    """Whoever took it; the poll is answered with the mark long before its time is over."""
    chosen = owner if noting == "owner" else other

    async def poll() -> httpx.Response:
        async with httpx.AsyncClient(timeout=40) as client:
            url, query = f"{other.url}/v1/streams/{name}/marks", {"wait_ms": 30_000}
            waiting = asyncio.create_task(client.get(url, params=query))
            await asyncio.sleep(0.3)
            begun = asyncio.get_running_loop().time()
            assert await asyncio.to_thread(note, chosen, name, 5) == 200
            answer = await waiting
            assert asyncio.get_running_loop().time() - begun < 15
            return answer

    marks = asyncio.run(poll()).json()["marks"]

    assert [(mark["seq"], mark["lower"]) for mark in marks] == [(1, 5)]


def test_clients_need_not_know_who_has_a_stream(other: ServeProcess, name: str) -> None:
    """A writer and a reader that know the other one only: notes are durable, windows exact."""
    with WriterClient(other.url, name, "w") as writer:
        writer.join()
        for noted in range(1, 6):
            writer.note_time(noted, {0: 10 * noted})
        writer.flush()
        with ReaderClient(other.url, name) as reader:
            reader.catch_up(timeout=20)
            lower = reader.window_at({0: 50}).lower

    assert lower == 5


# On the wire


def spoken(replica: ServeProcess, text: bytes, replies: int = 1) -> bytes:
    """Send bytes to a replica; returns what it sends until it closes, or so many replies."""
    with socket.create_connection(("127.0.0.1", replica.port), timeout=20) as connection:
        connection.sendall(text)
        heard = b""
        while heard.count(b"HTTP/1.1 ") < replies or not heard.endswith(b"}"):
            part = connection.recv(65536)
            if not part:
                break
            heard += part
        return heard


def posted(
    name: str, *, version: str = "1.1", headers: str = "", body: bytes | None = None
) -> bytes:
    """Return a request with a note as it goes over the wire."""
    body = b'{"notes":[{"writer":"w"}]}' if body is None else body
    length = "" if "chunked" in headers else f"content-length: {len(body)}\r\n"
    head = f"POST /v1/streams/{name}/notes HTTP/{version}\r\nhost: x\r\n{length}{headers}\r\n"
    return head.encode() + body


CHUNKED = b'5\r\n{"not\r\n15\r\nes":[{"writer":"w"}]}\r\n0\r\n\r\n'
UNUSUAL: dict[str, Callable[[str], tuple[bytes, int]]] = {
    "one after the other": lambda name: (posted(name) * 3, 3),
    "an old version": lambda name: (posted(name, version="1.0"), 1),
    "to be closed": lambda name: (posted(name, headers="connection: close\r\n"), 1),
    "in chunks": lambda name: (
        posted(name, headers="transfer-encoding: chunked\r\n", body=CHUNKED),
        1,
    ),
    "not expected": lambda name: (posted(name, headers="expect: 100-continue\r\n"), 1),
}


@pytest.mark.parametrize("request_of", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_requests_are_relayed_alike(
    owner: ServeProcess,
    other: ServeProcess,
    name: str,
    request_of: Callable[[str], tuple[bytes, int]],
) -> None:
    """Whatever the connection does, the other answers as the owner does."""
    text, replies = request_of(name)
    answers = [spoken(each, text, replies) for each in (owner, other)]

    found = [
        (answer.count(b"200 OK"), answer.count(b'"accepted"'), b"connection: close" in answer)
        for answer in answers
    ]
    assert (found[0], found[0][0]) == (found[1], replies)


def test_who_hangs_up_takes_nobody_along(other: ServeProcess, name: str) -> None:
    """Of callers that are gone before the answer the notes may be taken; all others' are."""
    for n in range(20):
        with socket.create_connection(("127.0.0.1", other.port), timeout=20) as connection:
            body = b'{"notes":[{"writer":"gone-%d"}]}' % n
            connection.sendall(posted(name, body=body))
            answered = note(other, name, 5, f"stays-{n}")
            assert answered == 200
    rows = HTTP.get(f"{other.url}/v1/streams/{name}/writers").json()["writers"]

    assert {f"stays-{n}" for n in range(20)} <= {row["writer"] for row in rows}


def test_frames_are_taken_at_the_door(owner: ServeProcess, other: ServeProcess, name: str) -> None:
    """By who has the stream; by nobody who has not, or that are none, or too large."""
    frame = frame_of([Item(name, b"", b'{"notes":[{"writer":"w"}]}')])
    url = f"{owner.url}/v1/relay"
    taken = HTTP.post(url, content=frame)
    misdirected = HTTP.post(f"{other.url}/v1/relay", content=frame)
    nonsense = HTTP.post(url, content=b"nonsense")
    large = HTTP.post(url, content=b"\x00" * (MAX_FRAME + 1))

    ((status, _, body),) = answers_of(taken.content)
    assert (taken.headers["content-type"], status, msgspec.json.decode(body)["results"]) == (
        MEDIA_TYPE,
        200,
        [{"status": "accepted", "lower": None}],
    )
    assert answers_of(misdirected.content) == [NOT_MINE]
    assert [(each.status_code, each.json()["code"]) for each in (nonsense, large)] == [
        (400, "malformed_frame"),
        (413, "too_large"),
    ]


def test_who_says_that_it_was_relayed_is_not_relayed(other: ServeProcess, name: str) -> None:
    """Whoever says so: 421, and nothing was done."""
    headers = {"noted-time-relayed": "1"}
    answer = HTTP.delete(f"{other.url}/v1/streams/{name}", headers=headers)

    assert (answer.status_code, lowers(other, name)) == (421, [])


def test_two_that_start_at_once_on_an_empty_database_both_serve(two: Two) -> None:
    """One makes the tables, both are ready."""
    assert [HTTP.get(f"{each.url}/readyz").status_code for each in two] == [200, 200]


def test_once_all_is_shared_no_bucket_moves(two: Two) -> None:
    """Without a note from anybody leases are renewed, beyond the time after which they end."""
    before = moves(two)
    time.sleep(1.1 * LEASE_MS / 1000)

    assert moves(two) == before


def moves(two: Two) -> list[list[str]]:
    """Return what each has logged of buckets that came and went."""
    return [
        [line["event"] for line in each.log() if line["event"].startswith("buckets_")]
        for each in two
    ]


def test_each_shows_whose_the_buckets_are(two: Two) -> None:
    """In its metrics: half are its own, half the other's, none is nobody's."""
    shown = [
        [
            line
            for line in HTTP.get(f"{each.url}/metrics").text.splitlines()
            if line.startswith(("noted_time_buckets{", "noted_time_replicas "))
        ]
        for each in two
    ]

    assert (
        shown
        == [
            [
                'noted_time_buckets{owner="this"} 32.0',
                'noted_time_buckets{owner="other"} 32.0',
                'noted_time_buckets{owner="nobody"} 0.0',
                "noted_time_replicas 2.0",
            ]
        ]
        * 2
    )
