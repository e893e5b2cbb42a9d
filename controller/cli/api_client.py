"""The commands' HTTP calls: one request each, errors in our own words."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx

from noted_time import Rejected, Unreachable
from noted_time.client import (
    SUCCESS,
    UNPACKED,
    Controllers,
    Incoming,
    authorization,
    error_of,
    kind_of,
)
from noted_time.values import checked_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from noted_time.client import Reply

Json = dict[str, Any]
ANSWER_S = 10.0
"""How long an answer may take beyond the time it was asked to wait."""

MOST_ROWS = 1000
"""So many rows has the longest page."""


def connected(url: str, token: str | None) -> closing[ApiClient]:
    """Return a client to be used in a `with` block."""
    return closing(ApiClient(url, token))


def stream_path(stream: str, *below: str) -> str:
    """Return the path of a stream or of something below it; raises `InvalidName`.

    >>> stream_path("flights", "explain")
    '/v1/streams/flights/explain'
    """
    return "/".join(("/v1/streams", checked_name("stream", stream), *below))


def writer_path(stream: str, writer: str, *below: str) -> str:
    """Return the path of a writer of a stream, likewise."""
    return stream_path(stream, "writers", checked_name("writer", writer), *below)


def alignment_path(alignment: str) -> str:
    """Return the path of an alignment, likewise."""
    return f"/v1/alignments/{checked_name('alignment', alignment)}"


class ApiClient:
    """Calls the controllers of one database, as long as one answers.

    Every call raises `Unreachable` where there was no answer, `Rejected` or `Conflict` where the
    answer was no.
    """

    def __init__(self, url: str, token: str | None) -> None:
        """Connect with the first call; raises `Rejected` where `url` or `token` cannot be one."""
        self._controllers = Controllers(url)
        self._http = httpx.Client(headers=UNPACKED | authorization(token, os.environ))

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        wait_s: float = 0.0,
    ) -> Json:
        """Return the answer's body; `wait_s` is how long the controller is asked to wait."""
        return self.answer(method, path, query=query, body=body, wait_s=wait_s)[1]

    def answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        wait_s: float = 0.0,
    ) -> tuple[int, Json]:
        """Return status and body of the answer, likewise; what is `None` in a query is left out."""
        given = {name: value for name, value in (query or {}).items() if value not in (None, [])}

        def call(url: str) -> tuple[int, Json]:
            timeout = ANSWER_S + wait_s
            try:
                with self._http.stream(
                    method, url + path, params=given, json=body, timeout=timeout
                ) as answer:
                    incoming = Incoming(answer.status_code, answer.headers)
                    for part in answer.iter_bytes():
                        incoming.add(part)
            except httpx.InvalidURL as error:
                raise Rejected(f"{url!r} is not a URL: {error}") from error
            except httpx.HTTPError as error:
                reason = str(error) or type(error).__name__
                raise Unreachable(f"no answer from {url}: {reason}") from error
            reply = incoming.reply()
            return reply.status, _body(reply, url, path)

        return self._controllers.ask(call)

    def rows(
        self, path: str, name: str, *, cursor: str, limit: int, query: Mapping[str, Any]
    ) -> Json:
        """Return up to `limit` rows of a paged list, with the `next` to go on from."""
        found: list[Any] = []
        asked = dict(query)
        while True:
            asked["limit"] = min(limit - len(found), MOST_ROWS)
            page = self.ask("GET", path, query=asked)
            found += page[name]
            if page["next"] is None or len(found) >= limit:
                return {name: found, "next": page["next"]}
            asked[cursor] = page["next"]

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()


def _body(answer: Reply, url: str, path: str) -> Json:
    """Return the decoded body of a success; what is no controller's answer is none at all."""
    try:
        body = json.loads(answer.content) if answer.content else {}
    except ValueError:
        body = None
    if answer.status in SUCCESS and isinstance(body, dict):
        return body
    if not (isinstance(body, dict) and kind_of(body)):
        raise Unreachable(f"{url} is not a noted-time controller (HTTP {answer.status})")
    stream = path.removeprefix("/v1/streams").strip("/").partition("/")[0]
    after = answer.headers.get("retry-after")
    raise error_of(answer.status, body, stream=stream, retry_after=after)
