"""A round-robin balancer in front of controllers: each request goes to the next that answers."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from typing import Self

import httpx

from tests.support.calls import HTTP, Calls

HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}
"""Headers of one connection, which are not passed on."""


class _Handler(BaseHTTPRequestHandler):
    """Passes a request on, and its answer back."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def pass_on(self) -> None:
        """Ask one controller after the other until one answers."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        for _ in self.server.controllers:
            with suppress(httpx.TransportError):
                answer = HTTP.request(
                    self.command, next(self.server.turns) + self.path, content=body, headers=headers
                )
                self._answer(answer)
                return
        self.send_error(502)

    def _answer(self, answer: httpx.Response) -> None:
        self.send_response(answer.status_code)
        for name, value in answer.headers.items():
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(answer.content)

    do_GET = do_PUT = do_POST = do_DELETE = pass_on  # noqa: N815 - as the server calls them

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *controllers: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.controllers = controllers
        self.turns = cycle(controllers)


class Balancer(Calls):
    """Serves in a thread."""

    def __init__(self, *controllers: str) -> None:
        """Forward to the controllers at these URLs."""
        self._server = _Server(*controllers)
        super().__init__(f"http://127.0.0.1:{self._server.server_address[1]}")
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
