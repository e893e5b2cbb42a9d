from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from controller.api.access import OPEN
from controller.api.middleware import MAX_BODY
from tests.support.controllers import names
from tests.support.http import Caller, problem

S = "/v1/streams/s"


@pytest.mark.parametrize("path", [f"{S}/notes", f"{S}/time-window"])
async def test_a_body_over_one_mebibyte_is_refused(call: Caller, path: str) -> None:
    """Before anything looks into it."""
    answer = await call.send("POST", path, b" " * (MAX_BODY + 1))

    assert problem(answer) == (413, "too_large", "the body is over 1048576 bytes")


@pytest.mark.parametrize("path", sorted(OPEN))
async def test_a_path_that_is_open_to_strangers_takes_no_body(call: Caller, path: str) -> None:
    """What such a client sends there is dropped as it comes."""
    answer = await call.send("GET", path, b"{}")

    assert problem(answer) == (413, "too_large", "the body is over 0 bytes")


async def test_a_chunked_body_over_one_mebibyte_is_refused(call: Caller) -> None:
    """Without a length in the header it is measured as it comes."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY // 65536 + 1):
            yield b" " * 65536

    answer = await call.client.post(f"{S}/notes", content=chunks())

    assert problem(answer)[:2] == (413, "too_large")


async def test_a_client_that_hangs_up_halfway_asked_for_nothing(call: Caller) -> None:
    """Half of a PUT is not a PUT without a body, which would make a stream."""
    sent: list[Any] = []
    messages = [{"type": "http.request", "body": b"", "more_body": True}]

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:  # noqa: ANN401 - any ASGI message
        sent.append(message)

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

    assert (sent, names(call.controller)) == ([], ["s"])
