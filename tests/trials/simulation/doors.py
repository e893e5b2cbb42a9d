"""Controllers behind their HTTP, without a server or socket: requests to and between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httpx

from controller.api.app import create_api
from controller.api.gate.access import Gate
from controller.api.middleware import Middleware
from controller.api.notes.body import decode
from controller.api.replicas.forwarding import Forwarding
from controller.service.controller import Controller
from noted_time.values import Note


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
        try:
            async with asyncio.timeout(request.extensions["timeout"]["read"]):
                return await self._ask(request)
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time") from error

    async def _ask(self, request: httpx.Request) -> httpx.Response:
        door = await self.door(request.url.host)
        if door is None:
            raise httpx.ConnectError("nobody answers")
        answer = await door.handle_async_request(request)
        if await self.door(request.url.host) is not door:
            raise httpx.ReadError("no answer")  # it was killed, cut off, or the answer is lost
        return answer
