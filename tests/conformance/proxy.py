"""A proxy between a writer and a controller that fails as planned, and records each request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import httpx

from noted_time.client import Json

KINDS = frozenset(("delay", "cut", "lose", "double", "hold"))

DELAY_S = 0.3
UPSTREAM_S = 20.0


class Fault(NamedTuple):
    """What happens to one request for notes.

    - `pass`: nothing; `delay`: the answer comes after `DELAY_S`.
    - `cut`: the connection ends, and the controller gets nothing.
    - `lose`: the controller gets the request, and the connection ends without the answer.
    - `double`: the controller gets the request twice, and the writer the second answer.
    - `hold`: as `cut`, but `Proxy.release` delivers the request later.
    - `status`: the proxy answers, with a problem document if there is a `code`.
    """

    kind: str
    status: int = 0
    code: str = ""
    retry_after_s: int | None = None


class Answered(NamedTuple):
    """An answer of the controller or of the proxy."""

    status: int
    headers: dict[str, str]
    content: bytes


@dataclass(slots=True)
class Request:
    """A request for notes. `answer` is what the writer got; `None` if the connection ended."""

    at: float
    content: bytes
    fault: Fault
    answered_at: float = float("inf")
    answer: Answered | None = None
    results: list[list[Json]] = field(default_factory=list)
    """The results of the controller, one list for each delivery."""

    @property
    def notes(self) -> list[Json]:
        """The notes, without those that are not JSON objects."""
        try:
            return [dict(note) for note in json.loads(self.content)["notes"]]
        except (ValueError, KeyError, TypeError):
            return []


class Proxy:
    """Passes requests on to the controller at `target`, unless a fault is planned."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.planned: list[Fault] = []
        self.is_away = False
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._held: list[tuple[str, dict[str, str], Request]] = []
        self._http = httpx.Client(
            timeout=UPSTREAM_S, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    def plan(self, *faults: Fault) -> None:
        """Plan the faults of the next requests for notes, one each."""
        self.planned += faults

    def release(self) -> None:
        """Deliver the requests that were held, like a network that was slow."""
        while self._held:
            path, headers, request = self._held.pop(0)
            self._forward("POST", path, headers, request)

    def take(self, content: bytes) -> Request:
        """Record a request for notes, with its fault."""
        with self._lock:
            planned = self.planned.pop(0) if self.planned and not self.is_away else Fault("pass")
            request = Request(time.monotonic(), content, Fault("cut") if self.is_away else planned)
            self.requests.append(request)
            return request

    def answer_notes(self, path: str, headers: dict[str, str], content: bytes) -> Answered | None:
        request = self.take(content)
        request.answer = self._perform(path, headers, request)
        request.answered_at = time.monotonic()
        return request.answer

    def pass_on(
        self, method: str, path: str, headers: dict[str, str], content: bytes
    ) -> Answered | None:
        """Pass any other request on."""
        return None if self.is_away else self._forward(method, path, headers, None, content)

    def _perform(self, path: str, headers: dict[str, str], request: Request) -> Answered | None:
        fault = request.fault
        if fault.kind == "status":
            return _refuse(fault)
        if fault.kind == "hold":
            self._held.append((path, headers, request))
        if fault.kind in ("cut", "hold"):
            return None
        answer = self._forward("POST", path, headers, request)
        if fault.kind == "double":
            answer = self._forward("POST", path, headers, request)
        if fault.kind == "delay":
            time.sleep(DELAY_S)
        return None if fault.kind == "lose" else answer

    def _forward(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        request: Request | None,
        content: bytes = b"",
    ) -> Answered | None:
        body = content if request is None else request.content
        try:
            answer = self._http.request(
                method, self.target + path, headers=headers, content=body or None
            )
        except httpx.HTTPError:
            return None
        if request is not None:
            request.results.append(read_results(answer.content))
        kept = ("content-type", "retry-after", "noted-time-owner")
        own = {name: answer.headers[name] for name in kept if name in answer.headers}
        return Answered(answer.status_code, own, answer.content)


def read_results(content: bytes) -> list[Json]:
    """Return the results in an answer to notes, none for another answer."""
    try:
        return [dict(each) for each in json.loads(content)["results"]]
    except (ValueError, KeyError, TypeError):
        return []


def _refuse(fault: Fault) -> Answered:
    headers = {} if fault.retry_after_s is None else {"retry-after": str(fault.retry_after_s)}
    if not fault.code:
        return Answered(fault.status, headers | {"content-type": "text/plain"}, b"not now")
    problem = {
        "type": f"urn:noted-time:problem:{fault.code}",
        "title": fault.code.replace("_", " ").capitalize(),
        "status": fault.status,
        "code": fault.code,
        "detail": "planned by the conformance runner",
    }
    kind = {"content-type": "application/problem+json"}
    return Answered(fault.status, headers | kind, json.dumps(problem).encode())


@contextmanager
def serving(proxy: Proxy) -> Iterator[str]:
    """Serve the proxy on a free port, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self._read()
            headers = {
                name: value
                for name in ("content-type", "authorization")
                if (value := self.headers.get(name)) is not None
            }
            if self.command == "POST" and self.path.partition("?")[0].endswith("/notes"):
                answer = proxy.answer_notes(self.path, headers, content)
            else:
                answer = proxy.pass_on(self.command, self.path, headers, content)
            if answer is None:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_PUT = do_DELETE = do_POST  # noqa: N815 - the names that the server looks for

        def _read(self) -> bytes:
            if self.headers.get("transfer-encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("content-length", 0)))
            content = b""
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return content

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
