"""HTTP servers of tests, on loopback and in threads of this process."""

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Loopback:
    """A server that calls `respond` for each request; it runs as long as its block."""

    def __init__(self, respond: Callable[[BaseHTTPRequestHandler], None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16

            def do_GET(self) -> None:
                respond(self)

            do_PUT = do_HEAD = do_DELETE = do_POST = do_GET  # noqa: N815 - the server's names

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def give(
    request: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str]
) -> None:
    """Answer a request; the headers may state another length."""
    request.send_response(status)
    for name, value in {"content-length": str(len(body)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)
