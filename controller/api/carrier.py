"""How frames get to one other controller: over connections that stay open, one at a time on each.

Any other request that is relayed goes through httpx. A frame through that costs this process ten
times what is needed to write it and to read the answer.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, cast

import httpx
from httptools import HttpParserError, HttpResponseParser

from controller.api.frames import MEDIA_TYPE, PATH

if TYPE_CHECKING:
    import ssl

ANSWER_S = 4.0
"""How long an owner may take: one that is silent for longer has been replaced."""

CONNECT_S = 1.0

OK = 200

HEAD = (
    f"POST {PATH} HTTP/1.1\r\nhost: %b\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: %d\r\n\r\n"
).encode()


class Undelivered(Exception):
    """No answer came, or none that counts; whether the frame was taken is not known."""


class Carrier:
    """The connections to the controller at one URL."""

    def __init__(self, url: str) -> None:
        """Begin without any."""
        self._url = url
        self._tls: ssl.SSLContext | None = None
        self._idle: list[_Wire] = []

    async def carry(self, frame: bytes) -> bytes:
        """Return the body of the answer; raises `Undelivered`."""
        try:
            async with asyncio.timeout(ANSWER_S):
                wire = await self._wire()
                try:
                    status, body = await wire.ask(self._request(frame))
                except BaseException:
                    wire.hang_up()
                    raise
        except (OSError, TimeoutError, httpx.InvalidURL) as error:
            raise Undelivered(repr(error)) from error
        if wire.is_open:
            self._idle.append(wire)
        if status != OK:
            raise Undelivered(f"the answer was {status}")
        return body

    def close(self) -> None:
        """Hang up where nothing is under way."""
        for wire in self._idle:
            wire.hang_up()

    def _request(self, frame: bytes) -> bytes:
        return HEAD % (self._place.netloc, len(frame)) + frame

    @cached_property
    def _place(self) -> httpx.URL:
        return httpx.URL(self._url)

    async def _wire(self) -> _Wire:
        """Return a connection on which nothing is under way."""
        while self._idle:
            wire = self._idle.pop()
            if wire.is_open:
                return wire
        place = self._place
        if place.scheme == "https":
            self._tls = self._tls or httpx.create_ssl_context()
        port = place.port or (443 if self._tls else 80)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_S):
            _, wire = await loop.create_connection(_Wire, place.host, port, ssl=self._tls)
        return wire


class _Wire(asyncio.Protocol):
    """One connection; raises `ConnectionError` where it ends, or says what is no HTTP."""

    def __init__(self) -> None:
        self.is_open = True
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._parser = HttpResponseParser(self)
        self._body = b""

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Send a request; the future has the status and body of its answer."""
        self._answer, self._body = asyncio.get_running_loop().create_future(), b""
        if self.is_open:
            self._transport.write(request)
        else:
            self._fail(ConnectionResetError("the connection was closed"))
        return self._answer

    def hang_up(self) -> None:
        """Close the connection, whatever is under way."""
        self.is_open = False
        self._transport.abort()

    # asyncio's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read on in the answer."""
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(ConnectionAbortedError(f"the answer is no HTTP: {error}"))
            self.hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """Know that no answer comes any more."""
        self.is_open = False
        self._fail(ConnectionResetError(f"the connection was lost: {exc}"))

    # httptools'

    def on_body(self, body: bytes) -> None:
        """Gather the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Give the answer to who asked; one that nobody asked for ends the connection."""
        answer, self._answer = self._answer, None
        if not self._parser.should_keep_alive() or answer is None:
            self.hang_up()
        if answer is not None and not answer.done():
            answer.set_result((self._parser.get_status_code(), self._body))

    def _fail(self, error: ConnectionError) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
