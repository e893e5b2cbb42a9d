"""How questions travel: httpx, for threads or asyncio, with the errors of our own tree.

It is not exported by `noted_time.client`, so that code without a network does not import httpx.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Generator, Mapping
from functools import cache
from typing import Any, TypeVar

import httpx

from noted_time.client.asking import (
    UNPACKED,
    Asked,
    Incoming,
    Question,
    Reply,
    ask,
    no_answer,
    run,
    run_async,
)
from noted_time.client.controllers import Controllers, authorization
from noted_time.values import Rejected

Result = TypeVar("Result")

ANSWER_S = 10.0
"""How much longer an answer may take than the controller is asked to wait."""


class Transport:
    """Connections to the controllers of one database, kept alive; safe to share between threads.

    Every call raises `Unreachable` if there was no answer, `Rejected` or `Conflict` if the answer
    is a refusal.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_s: float = ANSWER_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Connect with the first question; `transport` replaces the network.

        `url` may be several, separated by commas; raises `Rejected` if one is not a URL.
        """
        self.controllers = _controllers(url)
        self._timeout_s = timeout_s
        self._sockets: set[socket.socket] = set()
        self._hung_up = False
        self._lock = threading.Lock()
        self._http = httpx.Client(transport=transport, **_options(token, transport))

    def ask(self, question: Question) -> dict[str, Any]:
        """Return the body of the answer of the first controller that answers."""
        return self.run(ask(self.controllers, question))

    def run(self, routine: Generator[Asked, Reply, Result]) -> Result:
        """Return what a routine of questions returns."""
        return run(routine, self._send)

    def hang_up(self) -> None:
        """End the long polls under way: their calls raise `Unreachable`.

        Closing a socket does not wake the thread that reads from it; shutting it down does.
        """
        with self._lock:
            self._hung_up = True
            for each in self._sockets:
                _shut(each)

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def _send(self, asked: Asked) -> Reply:
        options = _request(asked, self._timeout_s) | {"extensions": {"trace": self._trace}}
        try:
            with self._http.stream(**options) as answer:
                incoming = Incoming(answer.status_code, answer.headers)
                for part in answer.iter_bytes():
                    incoming.add(part)
                return incoming.reply()
        except (httpx.HTTPError, RuntimeError) as error:  # the latter if the client was closed
            raise no_answer(asked, error) from error

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember the socket of each new connection; TLS replaces it with another."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            connected = info["return_value"].get_extra_info("socket")
            with self._lock:
                self._sockets = {each for each in self._sockets if each.fileno() >= 0}
                self._sockets.add(connected)
                if self._hung_up:
                    _shut(connected)


class AsyncTransport:
    """Connections to the controllers of one database, for tasks; raises as `Transport`."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_s: float = ANSWER_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Connect with the first question; the arguments are those of `Transport`."""
        self.controllers = _controllers(url)
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(transport=transport, **_options(token, transport))

    async def ask(self, question: Question) -> dict[str, Any]:
        """Return the body of the answer of the first controller that answers."""
        return await self.run(ask(self.controllers, question))

    async def run(self, routine: Generator[Asked, Reply, Result]) -> Result:
        """Return what a routine of questions returns."""
        return await run_async(routine, self._send)

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def _send(self, asked: Asked) -> Reply:
        try:
            async with self._http.stream(**_request(asked, self._timeout_s)) as answer:
                incoming = Incoming(answer.status_code, answer.headers)
                async for part in answer.aiter_bytes():
                    incoming.add(part)
                return incoming.reply()
        except httpx.HTTPError as error:
            raise no_answer(asked, error) from error


def _request(asked: Asked, timeout_s: float) -> dict[str, Any]:
    question = asked.question
    options = {
        "method": question.method,
        "url": asked.url + question.path,
        "timeout": timeout_s + question.wait_ms / 1000,
    }
    given = {"params": question.query or None, "json": question.body}
    return options | {name: value for name, value in given.items() if value is not None}


def _options(token: str | None, transport: object | None) -> dict[str, Any]:
    """Return the options of an httpx client, sync or async, without its transport."""
    return {
        "headers": UNPACKED | authorization(token, os.environ),
        "limits": httpx.Limits(max_connections=None),
        "verify": _authorities(),
        "trust_env": transport is None,
    }


@cache
def _authorities() -> ssl.SSLContext:
    """Return the certificate authorities; reading them takes 30 ms, so they are shared."""
    return httpx.create_ssl_context()


def _controllers(urls: str) -> Controllers:
    controllers = Controllers(urls)
    for url in controllers.urls:
        try:
            host = httpx.URL(url).host
        except httpx.InvalidURL as error:
            raise Rejected(f"{url!r} is not a URL: {error}; use http://127.0.0.1:7464") from error
        if not host:
            raise Rejected(f"{url!r} names no host: use http://127.0.0.1:7464")
    return controllers


def _shut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
