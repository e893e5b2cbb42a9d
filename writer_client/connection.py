"""How requests of a writer travel: httpx, with threads or asyncio, errors in our own words."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, TypedDict

import httpx

from noted_time.client import UNPACKED, Incoming, authorization, no_answer, run, run_async

if TYPE_CHECKING:
    import ssl

    from noted_time.client import Reply, Request
    from writer_client.answers import Answer
    from writer_client.exchange import Exchange
    from writer_client.waiting import Batch


class Connection:
    """Keep-alive connections of one writer, for a thread that waits."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        timeout_s: float,
        transport: httpx.BaseTransport | None,
        token: str | None,
    ) -> None:
        """Connect with the first post; `transport` takes the place of the network."""
        self._exchange = exchange
        self._http = httpx.Client(
            transport=transport, trust_env=transport is None, **_options(token, timeout_s)
        )

    def post(self, batch: Batch) -> Answer:
        """Post the notes and return what became of them; raises what `Exchange.post` does."""
        return run(self._exchange.post(batch), self._send)

    def seal(self, writer: str) -> bool:
        """Seal the stream unless it has other members; raises what the controller answers."""
        return run(self._exchange.seal(writer), self._send)

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def _send(self, request: Request) -> Reply:
        try:
            with self._http.stream(request.method, request.url, **request.options) as answer:
                incoming = Incoming(answer.status_code, answer.headers)
                for part in answer.iter_bytes():
                    incoming.add(part)
                return incoming.reply()
        except httpx.HTTPError as error:
            raise no_answer(request, error) from error


class AsyncConnection:
    """Keep-alive connections of one writer, for a task on an event loop."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        timeout_s: float,
        transport: httpx.AsyncBaseTransport | None,
        token: str | None,
    ) -> None:
        """Connect with the first post; `transport` takes the place of the network."""
        self._exchange = exchange
        self._http = httpx.AsyncClient(
            transport=transport, trust_env=transport is None, **_options(token, timeout_s)
        )

    async def post(self, batch: Batch) -> Answer:
        """Post the notes and return what became of them; raises what `Exchange.post` does."""
        return await run_async(self._exchange.post(batch), self._send)

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def _send(self, request: Request) -> Reply:
        try:
            async with self._http.stream(request.method, request.url, **request.options) as answer:
                incoming = Incoming(answer.status_code, answer.headers)
                async for part in answer.aiter_bytes():
                    incoming.add(part)
                return incoming.reply()
        except httpx.HTTPError as error:
            raise no_answer(request, error) from error


class _Options(TypedDict):
    headers: dict[str, str]
    timeout: float
    verify: ssl.SSLContext


def _options(token: str | None, timeout_s: float) -> _Options:
    return {
        "headers": UNPACKED | authorization(token, os.environ),
        "timeout": timeout_s,
        "verify": _authorities(),
    }


@cache
def _authorities() -> ssl.SSLContext:
    """Return what certificates are checked against; reading it takes 30 ms, so it is shared."""
    return httpx.create_ssl_context()
