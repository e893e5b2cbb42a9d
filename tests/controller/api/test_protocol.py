from collections.abc import Iterator

import httpx
import pytest

from controller.api.middleware import MAX_BODY
from tests.controller.api.wire import PATH, Wire, post
from tests.support.served import Served

NOTE = b'{"notes":[{"writer":"a","time":5}]}'
HEAD = b"POST /v1/streams/s/notes HTTP/1.1\r\nHost: localhost\r\n"
PUT = b"PUT /v1/streams/s HTTP/1.1\r\nHost: localhost\r\n"
ACCEPTED = (200, {"refused": 0, "results": [{"status": "accepted", "lower": None}]})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a served controller over a store in memory."""
    with Served() as served:
        yield int(served.url.rpartition(":")[2])


@pytest.fixture
def wire(port: int) -> Iterator[Wire]:
    """A connection to a controller whose stream `s` has just been made."""
    with Wire(port) as opened:
        opened.send(b"DELETE /v1/streams/s HTTP/1.1\r\nHost: localhost\r\n\r\n")
        opened.answer()
        opened.send(PUT, b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        opened.answer()
        yield opened


@pytest.mark.parametrize("size", [MAX_BODY + 1, 8 * MAX_BODY])
def test_a_body_over_the_limit_is_refused_when_all_of_it_was_sent(wire: Wire, size: int) -> None:
    """Its sender, which reads nothing before, gets the answer; then the connection is closed."""
    wire.send(post(b" " * size))

    assert (wire.code(), wire.ended()) == ((413, "too_large"), True)


@pytest.mark.parametrize(
    ("path", "body", "refused"),
    [
        (PATH, b'{"notes":[]}', (422, "invalid_request")),
        (PATH, b'{"notes":', (400, "malformed_json")),
        ("/v1/streams/absent/notes", NOTE, (404, "unknown_stream")),
        ("/v1/streams/a!b/notes", NOTE, (422, "invalid_request")),
        ("/v1/streams/a%20b/notes", NOTE, (422, "invalid_request")),
    ],
)
def test_a_wrong_request_gets_a_400(
    wire: Wire, path: str, body: bytes, refused: tuple[int, str]
) -> None:
    """The problem document is the same as on the documented route."""
    wire.send(post(body, path))

    assert wire.code() == refused


@pytest.mark.parametrize("hosts", [b"", b"Host: localhost\r\nHost: localhost\r\n"])
def test_a_request_without_one_host_is_refused(wire: Wire, hosts: bytes) -> None:
    """HTTP/1.1 asks for it, as proxies and the server may each take another of two."""
    wire.send(b"GET /v1/streams/s HTTP/1.1\r\n", hosts, b"\r\n")

    assert (wire.code(), wire.ended()) == ((400, "invalid_host"), True)


def test_a_request_of_http_1_0_needs_no_host(wire: Wire) -> None:
    """No browser sends one."""
    wire.send(b"GET /v1/streams/s HTTP/1.0\r\n\r\n")

    assert wire.answer()[0] == 200


@pytest.mark.parametrize(
    "unusual", [post(NOTE, version="1.0"), post(NOTE, PATH, "1.1", "Connection: close")]
)
def test_a_connection_that_is_not_to_stay_is_closed_after_the_answer(
    wire: Wire, unusual: bytes
) -> None:
    """The client declared that it sends no more."""
    wire.send(unusual)

    assert (wire.answer(), wire.ended()) == (ACCEPTED, True)


def test_a_client_that_expects_100_continue_gets_it(wire: Wire) -> None:
    """It sends the body after that, and is answered."""
    wire.send(HEAD, b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(NOTE))
    leave = wire.line(), wire.line()
    wire.send(NOTE)

    assert (leave, wire.answer()) == ((b"HTTP/1.1 100 Continue\r\n", b"\r\n"), ACCEPTED)


def test_a_client_that_went_away_disturbs_no_other(wire: Wire, port: int) -> None:
    """Its note counts all the same, as it was taken."""
    with Wire(port) as other:
        other.send(post(NOTE))
    wire.send(post(b'{"notes":[{"writer":"b","time":9}]}'))
    status, _ = wire.answer()

    assert status == 200


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
def test_no_browser_guesses_the_type_of_an_answer(port: int, method: str, path: str) -> None:
    """Whatever answers, once: the middleware, the framework, or a page."""
    url = f"http://127.0.0.1:{port}"
    httpx.put(f"{url}/v1/streams/sniffed")
    body = {"notes": [{"writer": "a"}]} if method == "POST" else None
    answer = httpx.request(method, f"{url}{path}", json=body)

    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
