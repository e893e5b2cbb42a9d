"""Controllers behind their HTTP, without a server or socket: requests to and between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import httpx
import msgspec

from controller.api.app import create_api
from controller.api.gate.access import Gate
from controller.api.middleware import Middleware
from controller.api.replicas.forwarding import Forwarding
from controller.service.controller import Controller
from controller.store.port import StoreUnavailable
from noted_time.client import note_to_wire
from noted_time.values import Accepted, Note, Refused
from writer_client.sending.answers import read_answer

if TYPE_CHECKING:
    from starlette.types import Message, Scope


class Door:
    """The way in to a controller, which forwards through `peers` what another one owns."""

    def __init__(self, controller: Controller, peers: httpx.AsyncBaseTransport) -> None:
        forwarding = Forwarding(controller, peers)
        api = create_api(controller, forwarding=forwarding)
        self._app = Middleware(api, controller, Gate(), forwarding)

    async def note(self, stream: str, note: Note) -> list[Accepted | Refused]:
        """Note as a client does; raises `StoreUnavailable` for any answer without a result."""
        body = msgspec.json.encode({"notes": [note_to_wire(note)]})
        reply = await self.answer("POST", f"/v1/streams/{stream}/notes", body)
        answer = msgspec.json.decode(reply.content)
        if "results" not in answer:
            raise StoreUnavailable(answer["detail"])
        return list(read_answer(reply.content, 1).results)

    async def answer(
        self, method: str, target: str, body: bytes, *shown: tuple[bytes, bytes]
    ) -> httpx.Response:
        """Return the answer to a whole request."""
        sent: list[Message] = []
        path, _, query = target.partition("?")
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost"), *shown],
            "client": ("127.0.0.1", 1),
            "state": {},
        }

        async def receive() -> Message:
            return {"type": "http.request", "body": body}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        start, end = sent
        return httpx.Response(start["status"], headers=start["headers"], content=end["body"])


class Peers(httpx.AsyncBaseTransport):
    """The network between controllers; `door` waits, and returns the one at a URL."""

    def __init__(
        self, door: Callable[[str], Awaitable[Door | None]], loses: Callable[[], bool]
    ) -> None:
        self._door, self._loses = door, loses

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Have it answered; raises httpx's errors without an answer."""
        door = await self._door(request.url.host)
        if door is None:
            raise httpx.ConnectError("nobody answers")
        shown = [(name.lower(), value) for name, value in request.headers.raw if name != b"Host"]
        answer = await door.answer(request.method, request.url.path, request.content, *shown)
        if self._loses():
            raise httpx.ReadError("the answer is lost")
        return answer
