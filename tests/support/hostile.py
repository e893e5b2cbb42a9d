"""A server with planned answers in front of a controller."""

import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler

from tests.support.loopback import Loopback, give
from tools.trials.calls import HTTP

Answer = Iterator[bytes]
STALLS = b""
"""A piece of an answer after which the connection stalls until the client closes it."""


def answer(body: bytes, status: int = 200, kind: str = "application/json") -> bytes:
    """Return an answer of HTTP with this body."""
    head = f"HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def drip(beginning: bytes, byte: bytes = b" ") -> Answer:
    """Yield the start of an answer, and then one byte after the other for ever."""
    yield beginning
    while True:
        time.sleep(0.1)
        yield byte


class HostileServer(Loopback):
    """Gives a planned answer to each request, then a controller's.

    `requests` are the bodies of the received ones, and `sent` counts the bytes of each planned
    answer.
    """

    def __init__(self, controller: str, *answers: Callable[[], Answer]) -> None:
        super().__init__(self._respond)
        self._controller = controller
        self.planned = deque(answers)
        self.requests: list[bytes] = []
        self.sent: list[int] = []

    def _respond(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        self.requests.append(body)
        if self.planned:
            self._give(request.connection, self.planned.popleft()())
            return
        kind = {"content-type": request.headers.get("content-type", "")}
        url = self._controller + request.path
        answer = HTTP.request(request.command, url, headers=kind, content=body)
        give(
            request,
            answer.status_code,
            answer.content,
            {"content-type": answer.headers["content-type"]},
        )

    def _give(self, connection: socket.socket, pieces: Answer) -> None:
        """Send an answer until the client closes the connection, and count it."""
        sent_bytes = 0
        with suppress(OSError):
            for piece in pieces:
                if piece == STALLS:
                    connection.recv(1)
                connection.sendall(piece)
                sent_bytes += len(piece)
        self.sent.append(sent_bytes)
