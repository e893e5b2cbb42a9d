"""Two replicas: whatever a connection does, it may be to either."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import msgspec
import pytest

from controller.api.answers import NOT_MINE
from controller.api.forwarding import MAX_FRAME, PATH, Item
from tests.replicas.played import answers_of, frame_of
from tests.replicas.served import HTTP, lowers, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.processes import ServeProcess

pytestmark = pytest.mark.acceptance


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
    head = f"POST /v1/streams/{name}/notes HTTP/{version}\r\nhost: localhost\r\n"
    return f"{head}{length}{headers}\r\n".encode() + body


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
def test_unusual_requests_are_forwarded_alike(
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
    url = f"{owner.url}{PATH}"
    taken = HTTP.post(url, content=frame)
    misdirected = HTTP.post(f"{other.url}{PATH}", content=frame)
    nonsense = HTTP.post(url, content=b"nonsense")
    large = HTTP.post(url, content=b"\x00" * (MAX_FRAME + 1))

    (answer,) = answers_of(taken.content)
    results = msgspec.json.decode(answer.body)["results"]
    accepted = {"status": "accepted", "lower": None, "timeout_ms": 60_000}
    assert (answer.status, results) == (200, [accepted])
    assert answers_of(misdirected.content) == [NOT_MINE]
    assert [(each.status_code, each.json()["code"]) for each in (nonsense, large)] == [
        (400, "malformed_frame"),
        (413, "too_large"),
    ]


def test_who_says_that_it_was_forwarded_is_not_forwarded(other: ServeProcess, name: str) -> None:
    """Whoever says so: 421, and nothing was done."""
    headers = {"noted-time-forwarded": "1"}
    answer = HTTP.delete(f"{other.url}/v1/streams/{name}", headers=headers)

    assert (answer.status_code, lowers(other, name)) == (421, [])
