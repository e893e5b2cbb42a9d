"""A server in place of a controller, with JSON answers of a test."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.support.loopback import Loopback, give

Answers = Callable[[str], tuple[int, Any]]
"""Returns status and body for a path."""


@contextmanager
def odd_controller(answers: Answers | Mapping[str, Any]) -> Iterator[str]:
    """Serve these answers, by a function or by the end of paths, and yield the URL."""

    def find_answer(path: str) -> tuple[int, Any]:
        if not isinstance(answers, Mapping):
            return answers(path)
        return 200, next((body for end, body in answers.items() if path.endswith(end)), {})

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.rfile.read(int(request.headers.get("content-length", 0)))
        status, body = find_answer(urlsplit(request.path).path)
        give(request, status, body if isinstance(body, bytes) else json.dumps(body).encode(), {})

    with Loopback(respond) as server:
        yield server.url
