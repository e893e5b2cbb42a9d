"""A server with planned answers in front of a controller."""

import socket
import socketserver
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit

Answer = Iterator[bytes]
STALLS = b""
"""A piece of an answer after which the connection stalls until the client closes it."""


def answer(body: bytes, status: int = 200, kind: str = "application/json") -> bytes:
    """Return an answer of HTTP with this body."""
    head = f"HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def drip(begun: bytes, byte: bytes = b" ") -> Answer:
    """Yield the start of an answer, and then one byte after the other for ever."""
    yield begun
    while True:
        time.sleep(0.1)
        yield byte


class _Requests(socketserver.BaseRequestHandler):
    server: "HostileServer"

    def handle(self) -> None:
        with suppress(OSError):
            while request := self._read():
                self.server.requests.append(request)
                if not self.server.planned:
                    self.request.sendall(self._relay(request))
                    continue
                self._give(self.server.planned.popleft()())

    def _give(self, pieces: Answer) -> None:
        """Send an answer until the client closes the connection, and count it."""
        sent = 0
        try:
            for piece in pieces:
                if piece == STALLS:
                    self.request.recv(1)
                self.request.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
        self.server.sent.append(sent)

    def _read(self) -> bytes:
        """Return a request, empty at the end of the connection."""
        read = b""
        while b"\r\n\r\n" not in read:
            if not (piece := self.request.recv(65_536)):
                return b""
            read += piece
        head, _, body = read.partition(b"\r\n\r\n")
        given = head.lower().partition(b"content-length:")[2].split()
        length = int(given[0]) if given else 0
        while len(body) < length:
            body += self.request.recv(65_536)
        return head + b"\r\n\r\n" + body

    def _relay(self, request: bytes) -> bytes:
        with socket.create_connection(self.server.controller) as connection:
            connection.sendall(request.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
            return b"".join(iter(lambda: connection.recv(65_536), b""))


class HostileServer(socketserver.ThreadingTCPServer):
    """Gives a planned answer to each request, then a controller's.

    `requests` are the received ones, and `sent` counts the bytes of each planned answer.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, controller: str, *planned: Callable[[], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        at = urlsplit(controller)
        assert at.hostname
        assert at.port
        self.controller = (at.hostname, at.port)
        self.planned = deque(planned)
        self.requests: list[bytes] = []
        self.sent: list[int] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
