"""HTTP answers with their whole bodies, independent of the framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

RawHeaders = list[tuple[bytes, bytes]]

JSON = "application/json"
PROBLEM = "application/problem+json"
NO_CONTENT = 204

MISDIRECTED = 421  # this controller does not own the stream

BY_STATUS: Mapping[int, tuple[bytes, bytes]] = {
    401: (b"www-authenticate", b"Bearer"),
    503: (b"retry-after", b"1"),
}


class Answer(NamedTuple):
    """An answer with its whole body. `headers` lack the length."""

    status: int
    body: bytes
    headers: RawHeaders

    @classmethod
    def of(cls, status: int, body: bytes, media_type: str = JSON) -> Answer:
        headers = [(b"content-type", media_type.encode())]
        if status in BY_STATUS:
            headers.append(BY_STATUS[status])
        return cls(status, body, headers)

    def with_headers(self, more: Iterable[tuple[bytes, bytes]]) -> Answer:
        return self._replace(headers=[*self.headers, *more])

    def to_response(self) -> Response:
        response = Response(self.body, self.status)
        response.raw_headers.extend(self.headers)
        return response

    async def send(self, send: Send) -> None:
        headers = list(self.headers)
        if self.status != NO_CONTENT:  # 204 must not have a length
            headers.append((b"content-length", b"%d" % len(self.body)))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


NOT_MINE = Answer(MISDIRECTED, b"", [])


async def answer_of(app: ASGIApp, scope: Scope, receive: Receive) -> Answer:
    """Return the answer without the length header, which `send` adds."""
    answer = Answer(500, b"", [])
    parts: list[bytes] = []

    async def gather(message: Message) -> None:
        nonlocal answer
        if message["type"] == "http.response.start":
            headers = [header for header in message["headers"] if header[0] != b"content-length"]
            answer = Answer(message["status"], b"", headers)
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await app(scope, receive, gather)
    return answer._replace(body=b"".join(parts))
