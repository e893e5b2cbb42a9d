"""Send questions by httpx, which is slow to import, for threads or asyncio."""

from __future__ import annotations

import os
import ssl
from collections.abc import Generator
from functools import cache
from typing import Any, TypeVar

import httpx

from noted_time.client.connections import ConnectionPool
from noted_time.client.controllers import Controllers, build_authorization
from noted_time.client.protocol import (
    REQUEST_HEADER,
    UNCOMPRESSED_HEADERS,
    AddressedQuestion,
    Answer,
    IncomingReply,
    Question,
    Reply,
    ask,
    build_unreachable,
    run,
    run_async,
)
from noted_time.values import Unreadable

Result = TypeVar("Result")

ANSWER_S = 10.0

ANSWER_TOO_LATE = "the answer did not end in time"

BYTES_PER_S = 64 * 1024
"""The minimum rate of an answer. A part of this size extends the deadline by a second."""


class Transport:
    """Connections to the controllers of one database, which threads may share.

    Calls raise `Unreachable` without an answer, and `Rejected` or `Conflict` for a refusal.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_s: float = ANSWER_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.controllers = _parse_controllers(url)
        self._timeout_s = timeout_s
        self._lines = ConnectionPool({"transport": transport, **_build_options(token, transport)})

    def ask(self, question: Question[Answer]) -> Answer:
        return self.run(ask(self.controllers, question))

    def run(self, routine: Generator[AddressedQuestion, Reply, Result]) -> Result:
        return run(routine, self._send)

    def hang_up(self) -> None:
        """End the calls in progress. All calls then raise `Unreachable`."""
        self._lines.end()

    def close(self) -> None:
        self._lines.close()

    def _send(self, attempt: AddressedQuestion) -> Reply:
        options = _build_request(attempt, self._timeout_s)
        with self._lines.acquire(options["timeout"]) as connection:
            options["extensions"] = {"trace": connection.trace}
            try:
                with connection.http.stream(**options) as answer:
                    incoming = IncomingReply(answer.status_code, answer.headers)
                    for part in answer.iter_bytes():
                        incoming.add(part)
                        connection.ends_at += len(part) / BYTES_PER_S
            # RuntimeError if the client was closed
            except (httpx.HTTPError, RuntimeError) as error:
                raise build_unreachable(
                    attempt, TimeoutError(ANSWER_TOO_LATE) if connection.is_late else error
                ) from error
            if connection.is_late:  # the end of a body without a length
                raise build_unreachable(attempt, TimeoutError(ANSWER_TOO_LATE))
            return incoming.reply()


class AsyncTransport:
    """Connections to the controllers of one database, for asyncio."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_s: float = ANSWER_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.controllers = _parse_controllers(url)
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(transport=transport, **_build_options(token, transport))

    async def ask(self, question: Question[Answer]) -> Answer:
        return await self.run(ask(self.controllers, question))

    async def run(self, routine: Generator[AddressedQuestion, Reply, Result]) -> Result:
        return await run_async(routine, self._send)

    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, attempt: AddressedQuestion) -> Reply:
        import asyncio  # noqa: PLC0415 - Spark uses only the other transport

        options = _build_request(attempt, self._timeout_s)
        ends_at = asyncio.get_running_loop().time() + options["timeout"]
        try:
            async with asyncio.timeout_at(ends_at) as end, self._http.stream(**options) as answer:
                incoming = IncomingReply(answer.status_code, answer.headers)
                async for part in answer.aiter_bytes():
                    incoming.add(part)
                    ends_at += len(part) / BYTES_PER_S
                    end.reschedule(ends_at)
                return incoming.reply()
        except httpx.HTTPError as error:
            raise build_unreachable(attempt, error) from error
        except TimeoutError as error:
            raise build_unreachable(attempt, TimeoutError(ANSWER_TOO_LATE)) from error


def _build_request(attempt: AddressedQuestion, timeout_s: float) -> dict[str, Any]:
    question = attempt.question
    options = {
        "method": question.method,
        "url": attempt.url + question.path,
        "headers": {REQUEST_HEADER: attempt.request_id},
        "timeout": timeout_s + question.wait_ms / 1000,
    }
    content = {"params": question.query or None, "json": question.body}
    return options | {name: value for name, value in content.items() if value is not None}


def _build_options(token: str | None, transport: object | None) -> dict[str, Any]:
    return {
        "headers": UNCOMPRESSED_HEADERS | build_authorization(token, os.environ),
        "limits": httpx.Limits(max_connections=None),
        "verify": _load_authorities(),
        "trust_env": transport is None,
    }


@cache  # reading them takes 30 ms
def _load_authorities() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _parse_controllers(urls: str) -> Controllers:
    controllers = Controllers(urls)
    for url in controllers.urls:
        try:
            host = httpx.URL(url).host
        except httpx.InvalidURL as error:
            raise Unreadable(f"{url!r} is not a URL: {error}; use http://127.0.0.1:7464") from error
        if not host:
            raise Unreadable(f"{url!r} names no host: use http://127.0.0.1:7464")
    return controllers
