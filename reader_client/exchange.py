"""One question to a controller: which one to ask, as what request, and what its answer means."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx

from noted_time.client import UNPACKED, Controllers, Request, ask_in_turn, authorization
from noted_time.values import Rejected

if TYPE_CHECKING:
    import ssl
    from collections.abc import Generator

    from noted_time.client import Reply
    from reader_client.questions import Json, Question

API = "/v1"
ANSWER_S = 10.0
"""How long an answer may take beyond the time it was asked to wait."""


class Exchange:
    """Asks the controllers of one stream, as a routine that yields requests (see `asking`)."""

    def __init__(self, url: str, stream: str) -> None:
        """Take one URL, or several with commas between; raises `Rejected` where one is none."""
        self.controllers = Controllers(url)
        self._stream = stream
        self._path = f"{API}/streams/{stream}"
        for each in self.controllers.urls:
            _check(each)

    def ask(self, question: Question) -> Generator[Request, Reply, Json]:
        """Return the first answer.

        Raises the last `Unreachable` where nobody answers, `Rejected` or `Conflict` where the
        answer is a refusal.
        """
        return (
            yield from ask_in_turn(
                self.controllers,
                lambda url: self._request(url, question),
                lambda reply: reply.body(self._stream),
            )
        )

    def _request(self, url: str, question: Question) -> Request:
        options: dict[str, Any] = {"timeout": ANSWER_S + question.wait_ms / 1000}
        if question.query:
            options["params"] = question.query
        if question.body is not None:
            options["json"] = question.body
        of = API if question.is_of_all else self._path
        return Request(question.method, url + of + question.path, options)


def client_options(token: str | None, transport: object | None) -> dict[str, Any]:
    """Return the options of an httpx client, sync or async, without its transport."""
    return {
        "headers": UNPACKED | authorization(token, os.environ),
        "timeout": ANSWER_S,
        "limits": httpx.Limits(max_connections=None),
        "verify": _authorities(),
        "trust_env": transport is None,
    }


@cache
def _authorities() -> ssl.SSLContext:
    """Return what certificates are checked against; reading it takes 30 ms, so it is shared."""
    return httpx.create_ssl_context()


def _check(url: str) -> None:
    try:
        host = httpx.URL(url).host
    except httpx.InvalidURL as error:
        raise Rejected(f"{url!r} is not a URL: {error}; use http://127.0.0.1:7464") from error
    if not host:
        raise Rejected(f"{url!r} names no host: use http://127.0.0.1:7464")
