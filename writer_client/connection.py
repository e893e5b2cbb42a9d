"""How a batch of notes travels to the controller: one HTTP request, errors in our own words."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx

from noted_time.bearer import authorization
from noted_time.controllers import OWNER, Controllers
from noted_time.errors import SharedName, Unreachable
from noted_time.problems import error_of
from noted_time.wire import note_to_wire
from writer_client.numbering import Numbers

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from noted_time.note import Note

SHARED = 3
"""So many posts in a row that were overtaken are not those of a former self."""


class Connection:
    """One keep-alive connection of one writer to `/v1/streams/{stream}/notes`.

    Each request has a number above those before it, also one that says the same to another
    controller: one that was given up may still be taken, and is known to be old then.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        timeout_s: float,
        transport: httpx.BaseTransport | None,
        token: str | None = None,
    ) -> None:
        """Connect with the first post; `transport` takes the place of the network."""
        self._numbers = Numbers()
        self._overtaken = 0
        self._stream = stream
        self._path = f"/v1/streams/{stream}/notes"
        self._controllers = Controllers(url)
        self._http = httpx.Client(
            headers=authorization(token, os.environ),
            timeout=timeout_s,
            verify=_authorities(),
            transport=transport,
            trust_env=transport is None,
        )

    def post(self, notes: Sequence[Note]) -> list[dict[str, Any]]:
        """Return the results in the order of the notes, which are durable then.

        Raises `Unreachable` where the outcome is unknown, `Rejected` where the whole request was
        refused, `SharedName` where another process seems to note under the writer's name.
        """
        results = self._send(notes)
        if not self._is_overtaken(results):
            self._overtaken = 0
            return results
        self._overtaken += 1
        if self._overtaken < SHARED:
            results = self._send(notes)
            if not self._is_overtaken(results):
                return results
        raise SharedName(notes[0].writer)

    def close(self) -> None:
        """Give the connection back."""
        self._http.close()

    def _send(self, notes: Sequence[Note]) -> list[dict[str, Any]]:
        wire = [note_to_wire(note) for note in notes]
        return _results(self._controllers.ask(lambda url: self._post(url, wire)), len(notes))

    def _is_overtaken(self, results: Sequence[dict[str, Any]]) -> bool:
        """Whether a request with a higher number was taken before; the next one is above it.

        By a former self, on a clock that was ahead, or by another process of the same name.
        """
        last = [result["last"] for result in results if result["status"] == "superseded"]
        for number in last:
            self._numbers.go_above(number)
        return bool(last)

    def _post(self, url: str, notes: list[dict[str, Any]]) -> dict[str, Any]:
        sequence = self._numbers.take()
        body = {"notes": [note | {"sequence": sequence} for note in notes]}
        try:
            answer = self._http.post(url + self._path, json=body)
        except httpx.HTTPError as error:
            message = f"no answer from {url}: {str(error) or type(error).__name__}"
            raise Unreachable(message) from error
        self._controllers.prefer(answer.headers.get(OWNER))
        return self._decoded(answer)

    def _decoded(self, answer: httpx.Response) -> dict[str, Any]:
        body = _object(answer)
        if answer.is_success:
            return body
        after = answer.headers.get("retry-after")
        raise error_of(answer.status_code, body, stream=self._stream, retry_after=after)


@cache
def _authorities() -> ssl.SSLContext:
    """Return what certificates are checked against; reading it takes 30 ms, so it is shared."""
    return httpx.create_ssl_context()


def _results(body: dict[str, Any], count: int) -> list[dict[str, Any]]:
    results = body.get("results", [])
    if len(results) != count or not all("status" in result for result in results):
        message = f"not an answer to {count} notes: {str(body)[:200]}"
        raise Unreachable(message)
    return list(results)


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
