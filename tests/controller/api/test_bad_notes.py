"""Faults of notes are explained, refused notes counted, and bodies bounded."""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from controller.api.gate.access import OPEN_PATHS
from controller.api.middleware import MAX_BODY
from tests.support.controllers import list_streams
from tests.support.http import Caller, problem

S = "/v1/streams/s"

MANY = b'{"notes": [%s]}' % b",".join([b'{"writer":"a"}'] * 1001)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", f"{S}/notes", b'{"notes": [{"writer": "\xff"}]}', 400),
        ("POST", f"{S}/notes", b'{"notes":"\xff\xfe"}', 400),
        ("POST", f"{S}/notes", b'{"notes":[{"writer": 5, "label": "\xff"}]}', 400),
        ("POST", f"{S}/notes", b'{"\xff": 1}', 400),
        ("POST", f"{S}/notes", b'{"x":' + b"[" * 100_000, 422),
        ("POST", f"{S}/notes", b'{"notes":' + b"[" * 100_000, 422),
        ("POST", f"{S}/notes", MANY, 422),
        ("PUT", S, b"\xff", 400),
        ("PUT", S, b"[" * 100_000, 400),
    ],
)
async def test_malformed_bodies_are_refused(
    call: Caller, method: str, path: str, body: bytes, status: int
) -> None:
    """Malformed JSON is a 400, unless it is refused before it is read to its end."""
    code = "malformed_json" if status == 400 else "invalid_request"

    assert problem(await call.send(method, path, body))[:2] == (status, code)


async def test_bodies_of_all_calls_must_be_utf_8(call: Caller) -> None:
    """Also where another fault comes before the bytes that are not."""
    paths = (await call.get("/openapi.json")).json()["paths"]
    calls = []
    for path, operations in paths.items():
        for method, operation in operations.items():
            if "requestBody" in operation:
                calls.append((method.upper(), re.sub(r"\{\w+\}", "s", path)))
    bodies = (
        b'{"notes":"\xff\xfe"}',
        b'{"notes": 5, "x": "\xff"}',
        b"\xff",
        b'{"cut": {"\xff": 1}}',
    )

    assert len(calls) > 10
    for method, path in calls:
        for body in bodies:
            answer = await call.send(method, path, body)
            assert problem(answer)[:2] == (400, "malformed_json"), (method, path)


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
async def test_open_path_takes_no_body(call: Caller, path: str) -> None:
    answer = await call.send("GET", path, b"{}")

    assert problem(answer) == (413, "too_large", "the body is over 0 bytes")


async def test_chunked_body_over_one_mebibyte_is_refused(call: Caller) -> None:
    """Without a length in the header, the body is measured as it arrives."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY // 65536 + 1):
            yield b" " * 65536

    answer = await call.client.post(f"{S}/notes", content=chunks())

    assert problem(answer)[:2] == (413, "too_large")


async def test_incomplete_put_creates_nothing(call: Caller) -> None:
    """Half of a PUT does not count as a PUT without a body."""
    sent_messages: list[Any] = []
    messages = [{"type": "http.request", "body": b"", "more_body": True}]

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:  # noqa: ANN401 - any ASGI message
        sent_messages.append(message)

    transport = call.client._transport
    assert isinstance(transport, httpx.ASGITransport)
    scope = {
        "type": "http",
        "http_version": "1.0",
        "method": "PUT",
        "path": "/v1/streams/half",
        "query_string": b"",
        "headers": [],
    }
    await transport.app(scope, receive, send)

    assert (sent_messages, list_streams(call.controller)) == ([], ["s"])
