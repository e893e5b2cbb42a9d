"""Controllers behind their HTTP, without a server or socket: requests to and between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httpx
import msgspec

from controller.api.app import create_api
from controller.api.gate.access import Gate
from controller.api.middleware import Middleware
from controller.api.notes.body import decode
from controller.api.replicas.forwarding import Forwarding
from controller.service.controller import Controller
from controller.store.port import StoreUnavailable
from noted_time.client import note_to_wire
from noted_time.values import Accepted, Note, Refused
from writer_client.sending.answers import read_answer


class Door(httpx.ASGITransport):
    """The way in to a controller, which forwards through `peers` what another one owns."""

    def __init__(self, controller: Controller, peers: httpx.AsyncBaseTransport) -> None:
        forwarding = Forwarding(controller, peers)
        api = create_api(controller, forwarding=forwarding)
        super().__init__(Middleware(api, controller, Gate(), forwarding))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the whole answer to a request."""
        request.headers["host"] = "localhost"  # no other host is answered without tokens
        answer = await super().handle_async_request(request)
        content = b"".join([part async for part in answer.aiter_raw()])
        return httpx.Response(answer.status_code, headers=answer.headers, content=content)

    async def note(self, stream: str, note: Note) -> list[Accepted | Refused]:
        """Note as a client does; raises `StoreUnavailable` for any answer without a result."""
        body = msgspec.json.encode({"notes": [note_to_wire(note)]})
        url = f"http://localhost/v1/streams/{stream}/notes"
        reply = await self.handle_async_request(httpx.Request("POST", url, content=body))
        answer = msgspec.json.decode(reply.content)
        if "results" not in answer:
            raise StoreUnavailable(answer["detail"])
        return list(read_answer(reply.content, 1).results)


@dataclass
class Network(httpx.AsyncBaseTransport):
    """The network of controllers and clients, which delays messages, loses and doubles them.

    `door` waits, and returns the controller at a host, unless the message gets lost. `doubles` says
    whether a request comes twice, and `sent` takes each note of a client on its way.
    """

    door: Callable[[str], Awaitable[Door | None]]
    doubles: Callable[[], bool]
    sent: Callable[[Note], None]
    repeated: list[asyncio.Task[httpx.Response]] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Have it answered; raises httpx's errors without an answer."""
        body = await request.aread()
        if request.url.path.endswith("/notes"):
            for note in decode(body):
                self.sent(note)
        if self.doubles():
            self.repeated.append(asyncio.create_task(self._ask(request)))
        return await self._ask(request)

    async def _ask(self, request: httpx.Request) -> httpx.Response:
        door = await self.door(request.url.host)
        if door is None:
            raise httpx.ConnectError("nobody answers")
        answer = await door.handle_async_request(request)
        if await self.door(request.url.host) is not door:
            raise httpx.ReadError("no answer")  # it was killed, cut off, or the answer is lost
        return answer
