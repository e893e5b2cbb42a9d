"""Shows which request an answer belongs to, because a cache or proxy may mix answers up."""

from __future__ import annotations

import re

from starlette.types import Message, Scope, Send

from controller.api.wire.responses import RawHeaders
from noted_time.client import REQUEST_HEADER

HEADER_NAME = REQUEST_HEADER.encode()
REQUEST_ID = re.compile(rb"[0-9A-Fa-f]{16}")
CACHE_CONTROL = b"cache-control"
NO_STORE = (CACHE_CONTROL, b"no-store")


class AnswerSender:
    """Sends an answer with the id of its request, which no cache may store.

    An answer with its own `cache-control` keeps it.
    """

    __slots__ = ("_request_id", "_send", "has_started")

    def __init__(self, scope: Scope, send: Send) -> None:
        self.has_started = False
        self._send = send
        self._request_id = find_request_id(scope["headers"])

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            message["headers"] = self._extend(message["headers"])
        await self._send(message)

    def _extend(self, headers: RawHeaders) -> RawHeaders:
        all_headers = [*headers, NO_STORE]
        for name, _ in headers:
            if name == CACHE_CONTROL:
                all_headers.pop()
        if self._request_id is not None:
            all_headers.append((HEADER_NAME, self._request_id))
        return all_headers


def find_request_id(headers: RawHeaders) -> bytes | None:
    """Return the id of a request, or `None` if it has none, several, or an invalid one.

    >>> find_request_id([(b"noted-request", b"00f1e2d3c4b5a697")])
    b'00f1e2d3c4b5a697'
    >>> find_request_id([(b"noted-request", b"7")])
    """
    request_id = None
    for name, value in headers:
        if name == HEADER_NAME:
            if request_id is not None or not REQUEST_ID.fullmatch(value):
                return None
            request_id = value
    return request_id
