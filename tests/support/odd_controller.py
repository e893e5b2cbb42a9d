"""A server in place of a controller, with JSON answers of a test."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Answers = Callable[[str], tuple[int, Any]]
"""Returns status and body for a path."""


@contextmanager
def odd_controller(answers: Answers | Mapping[str, Any]) -> Iterator[str]:
    """Serve these answers, by a function or by the end of paths, and yield the URL."""

    def find_answer(path: str) -> tuple[int, Any]:
        if not isinstance(answers, Mapping):
            return answers(path)
        return 200, next((body for end, body in answers.items() if path.endswith(end)), {})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status, body = find_answer(urlsplit(self.path).path)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = do_GET  # noqa: N815 - the names that the server looks for

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
