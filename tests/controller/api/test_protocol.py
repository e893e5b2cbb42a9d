"""Ends and sizes of HTTP requests, and ends of connections.

A request that two parsers could read differently is refused.
"""

import time
from collections.abc import Iterator

import httpx
import pytest

from controller.api.middleware import MAX_BODY
from tests.controller.api.wire import PATH, Wire, post
from tools.trials.served import Served

NOTE = b'{"notes":[{"writer":"a","time":5}]}'
HIDDEN = b"PUT /v1/streams/hidden HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(NOTE), NOTE)
ACCEPTED = (200, {"refused": 0, "results": [{"status": "accepted", "lower": None}]})
UPGRADES = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQA")


def head(*lines: str, method: str = "POST", path: str = PATH) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


UNCLEAR = {
    "both lengths": head("Content-Length: 4", "Transfer-Encoding: chunked") + CHUNKED,
    "both, turned": head("Transfer-Encoding: chunked", "Content-Length: 4") + CHUNKED,
    "two lengths": head(f"Content-Length: {len(NOTE)}", "Content-Length: 0") + NOTE,
    "equal lengths": head(*[f"Content-Length: {len(NOTE)}"] * 2) + NOTE,
    "a list of lengths": head(f"Content-Length: {len(NOTE)}, {len(NOTE)}") + NOTE,
    "a signed length": head(f"Content-Length: +{len(NOTE)}") + NOTE,
    "a negative length": head("Content-Length: -1") + NOTE,
    "a length in hex": head(f"Content-Length: {len(NOTE):#x}") + NOTE,
    "a length beyond int64": head(f"Content-Length: {2**64 + len(NOTE)}") + NOTE,
    "a space before the colon": head(f"Content-Length : {len(NOTE)}") + NOTE,
    "a folded field": head("Content-Length:", f" {len(NOTE)}") + NOTE,
    "a folded encoding": head("Transfer-Encoding:", " chunked") + CHUNKED,
    "not chunked last": head("Transfer-Encoding: chunked, identity") + CHUNKED,
    "an unknown encoding": head("Transfer-Encoding: xchunked") + CHUNKED,
    "a chunk of no number": head("Transfer-Encoding: chunked") + b"x\r\n" + NOTE,
    "a chunk beyond int64": head("Transfer-Encoding: chunked") + b"f" * 17 + b"\r\n" + NOTE,
    "a chunk that goes on": head("Transfer-Encoding: chunked") + b"2\r\n" + NOTE,
    "a bare line feed": head(f"Content-Length: {len(NOTE)}").replace(b"\r\n", b"\n") + NOTE,
    "one bare line feed": head(f"X: y\nContent-Length: {len(NOTE)}") + NOTE,
    "a bare carriage return": head(f"X: y\rContent-Length: {len(NOTE)}") + NOTE,
    "a null": head(f"Content-Length: {len(NOTE)}\0") + NOTE,
    "a line without a name": head(f": {len(NOTE)}") + NOTE,
    "a space before the first field": head().replace(b"Host", b" Host"),
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no protocol": b"hello\r\n\r\n",
    "a tunnel": head(f"Content-Length: {len(HIDDEN)}", method="CONNECT", path="h:1"),
}


@pytest.fixture
def wire(served: Served) -> Iterator[Wire]:
    with Wire(served.port) as wire:
        for method in ("DELETE", "PUT"):
            wire.send(head(method=method, path="/v1/streams/s"))
            wire.answer()
        yield wire


def read_effects(served: Served) -> tuple[int, bool]:
    """Return how many writers noted to the stream `s`, and whether a hidden request ran."""
    with Wire(served.port) as other:
        other.send(head(method="GET", path="/v1/streams/s/writers"))
        _, page = other.answer()
        other.send(head(method="GET", path="/v1/streams/hidden"))
        return len(page["writers"]), other.answer()[0] == 200


@pytest.mark.parametrize("unclear", UNCLEAR.values(), ids=UNCLEAR)
@pytest.mark.parametrize("cut", ["whole", "byte by byte"])
def test_request_without_clear_end_is_refused(
    served: Served, wire: Wire, unclear: bytes, cut: str
) -> None:
    """The answer is a 400, the connection ends, and the following bytes never run."""
    if cut == "whole":
        wire.send(unclear, HIDDEN)
    else:
        for byte in unclear + HIDDEN:
            wire.flood(bytes([byte]), 1)
    status = int(wire.line().split()[1])
    while wire.line():
        pass

    assert (status, wire.has_ended(), read_effects(served)) == (400, True, (0, False))


def list_cuts(request: bytes) -> dict[str, list[bytes]]:
    """Return the ways to split a request with a body."""
    end = request.index(b"\r\n\r\n") + 4
    name = request.index(b"Upgrade: ") + 4
    return {
        "whole": [request],
        "head and body": [request[:end], request[end:]],
        "amid the field": [request[:name], request[name:]],
        "amid the field, then the body": [request[:name], request[name:end], request[end:]],
    }


@pytest.mark.parametrize("way", list_cuts(post(HIDDEN, PATH, "1.1", *UPGRADES)))
def test_body_of_upgrade_never_runs_as_request(served: Served, wire: Wire, way: str) -> None:
    """If the field is cut in two, the request is refused."""
    for piece in list_cuts(post(HIDDEN, PATH, "1.1", *UPGRADES))[way]:
        wire.send(piece)
        time.sleep(0.05)
    refusal = wire.code()

    code = "unknown_protocol" if "amid" in way else "malformed_json"
    assert (refusal, read_effects(served)) == ((400, code), (0, False))


@pytest.mark.parametrize("spelled", [b"Upgrade", b"upgrade", b"UPGRADE", b"uPGRADe"])
def test_offer_of_upgrade_is_ignored(wire: Wire, spelled: bytes) -> None:
    """Java's default client offers one with each request of a connection."""
    request = post(NOTE, PATH, "1.1", *UPGRADES)
    statuses = []
    for piece in list_cuts(request)["head and body"] * 3 + [request]:
        wire.send(piece.replace(b"Upgrade:", spelled + b":"))
        time.sleep(0.05)
        if piece.endswith(NOTE):
            statuses.append(wire.answer()[0])

    assert statuses == [200] * 4


def test_upgrade_sent_ahead_ends_connection(served: Served, wire: Wire) -> None:
    """The request before it is answered, and its body does not run."""
    first_piece, rest = list_cuts(post(HIDDEN, PATH, "1.1", *UPGRADES))["amid the field"]
    wire.send(post(NOTE), first_piece)
    time.sleep(0.05)
    wire.send(rest, HIDDEN)

    answers = wire.answer()[0], wire.code(), wire.has_ended()
    assert (answers, read_effects(served)) == ((200, (400, "unknown_protocol"), True), (1, False))


@pytest.mark.parametrize("size", [MAX_BODY + 1, 8 * MAX_BODY])
def test_large_body_is_refused_after_it_was_sent(wire: Wire, size: int) -> None:
    """So a client that first sends the whole body gets the answer."""
    wire.send(post(b" " * size))

    assert (wire.code(), wire.has_ended()) == ((413, "too_large"), True)


@pytest.mark.parametrize("hosts", [b"", b"Host: localhost\r\nHost: localhost\r\n"])
def test_request_without_one_host_is_refused(wire: Wire, hosts: bytes) -> None:
    """HTTP/1.1 requires it, as two parsers may take different hosts."""
    wire.send(b"GET /v1/streams/s HTTP/1.1\r\n", hosts, b"\r\n")

    assert (wire.code(), wire.has_ended()) == ((400, "invalid_host"), True)


def test_request_of_http_1_0_needs_no_host(wire: Wire) -> None:
    wire.send(b"GET /v1/streams/s HTTP/1.0\r\n\r\n")

    assert wire.answer()[0] == 200


@pytest.mark.parametrize(
    "unusual", [post(NOTE, version="1.0"), post(NOTE, PATH, "1.1", "Connection: close")]
)
def test_connection_is_closed_after_answer_if_asked(wire: Wire, unusual: bytes) -> None:
    wire.send(unusual)

    assert (wire.answer(), wire.has_ended()) == (ACCEPTED, True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/streams/sniffed/notes"),
        ("GET", "/v1/streams/sniffed/marks"),
        ("GET", "/v1/streams/sniffed"),
        ("GET", "/v1/streams/absent"),
        ("GET", "/metrics"),
        ("GET", "/"),
    ],
)
def test_answers_forbid_content_sniffing(served: Served, method: str, path: str) -> None:
    """The middleware, the framework and the pages set the header."""
    served.create("sniffed")
    body = {"notes": [{"writer": "a"}]} if method == "POST" else None
    answer = httpx.request(method, f"{served.url}{path}", json=body)

    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
