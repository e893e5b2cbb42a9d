"""A proxy between a writer and a controller that fails as planned, and records each request."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple

import httpx

from controller.api.wire.problems import build_problem
from controller.api.wire.responses import PROBLEM
from noted_time.client import Json
from tests.support.loopback import Loopback, give

KINDS = frozenset(("delay", "cut", "lose", "half", "double", "hold", "mute"))
KEPT = ("content-type", "retry-after", "noted-time-owner")

DELAY_S = 0.3
MUTE_S = 60.0
"""Longer than a program may take, so it passes only with a timeout."""
UPSTREAM_S = 20.0


Headers = dict[str, str]
Answered = httpx.Response | None
"""The answer of the controller or of the proxy, or none."""


class Fault(NamedTuple):
    """What happens to one request for notes.

    - `pass`: nothing; `delay`: the answer comes after `DELAY_S`.
    - `cut`: the connection ends, and the controller gets nothing.
    - `lose`: the controller gets the request, and the connection ends without the answer.
    - `half`: the same, but the answer breaks off.
    - `double`: the controller gets the request twice, and the writer the second answer.
    - `hold`: as `cut`, but `Proxy.release` delivers the request later.
    - `mute`: as `cut`, but the connection stays open for `MUTE_S`.
    - `status`: the proxy answers, with a problem document if there is a `code`.
    """

    kind: str
    status: int = 0
    code: str = ""
    retry_after_s: int | None = None


@dataclass(slots=True)
class Request:
    """A request for notes. `answer` is `None` if the writer got no whole answer."""

    at: float
    content: bytes
    fault: Fault
    answered_at: float = float("inf")
    answer: Answered = None
    results: list[list[Json]] = field(default_factory=list)
    """The results of the controller, one list for each delivery."""

    @property
    def notes(self) -> list[Json]:
        """The notes, or none if the body has another form."""
        try:
            return [dict(note) for note in json.loads(self.content)["notes"]]
        except (ValueError, KeyError, TypeError):
            return []


class Proxy:
    """Passes requests on to the controller at `target`, unless a fault is planned."""

    def __init__(self, target: str) -> None:
        self.planned: list[Fault] = []
        self.is_away = False
        self.requests: list[Request] = []
        self._target = target
        self._lock = threading.Lock()
        self._held: list[tuple[str, Headers, Request]] = []
        self._http = httpx.Client(
            timeout=UPSTREAM_S, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    def release(self) -> None:
        """Deliver the requests on hold, like a slow network."""
        while self._held:
            self._deliver(*self._held.pop(0))

    def answer(self, method: str, path: str, headers: Headers, body: bytes) -> Answered:
        """Record and answer a request for notes, or pass another one on."""
        if not path.partition("?")[0].endswith("/notes"):
            return None if self.is_away else self._forward(method, path, headers, body)
        with self._lock:
            fault = Fault("cut") if self.is_away else (self.planned or [Fault("pass")]).pop(0)
            request = Request(time.monotonic(), body, fault)
            self.requests.append(request)
        answer = self._perform(path, headers, request)
        request.answer = None if fault.kind == "half" else answer
        request.answered_at = time.monotonic()
        return answer

    def _perform(self, path: str, headers: Headers, request: Request) -> Answered:
        fault = request.fault
        if fault.kind == "status":
            return _refuse(fault)
        if fault.kind == "hold":
            self._held.append((path, headers, request))
        if fault.kind == "mute":
            time.sleep(MUTE_S)
        if fault.kind in ("cut", "hold", "mute"):
            return None
        answer = self._deliver(path, headers, request)
        if fault.kind == "double":
            answer = self._deliver(path, headers, request)
        if fault.kind == "delay":
            time.sleep(DELAY_S)
        if fault.kind == "half" and answer is not None:
            length = {"content-length": str(len(answer.content))}
            return httpx.Response(answer.status_code, headers=length, content=answer.content[:-9])
        return None if fault.kind == "lose" else answer

    def _deliver(self, path: str, headers: Headers, request: Request) -> Answered:
        answer = self._forward("POST", path, headers, request.content)
        if answer is not None:
            request.results.append(read_results(answer.content))
        return answer

    def _forward(self, method: str, path: str, headers: Headers, body: bytes) -> Answered:
        try:
            url = self._target + path
            return self._http.request(method, url, headers=headers, content=body or None)
        except httpx.HTTPError:
            return None


def read_results(content: bytes) -> list[Json]:
    """Return the results in an answer to notes, none for another answer."""
    try:
        return [dict(result) for result in json.loads(content)["results"]]
    except (ValueError, KeyError, TypeError):
        return []


def _refuse(fault: Fault) -> httpx.Response:
    headers = {} if fault.retry_after_s is None else {"retry-after": str(fault.retry_after_s)}
    if not fault.code:
        return httpx.Response(fault.status, headers=headers, text="not now")
    body = build_problem(fault.status, fault.code, "planned by the conformance runner").body
    headers["content-type"] = PROBLEM
    return httpx.Response(fault.status, headers=headers, content=body)


@contextmanager
def serving(proxy: Proxy) -> Iterator[str]:
    """Serve the proxy on a free port, and yield its URL."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        names = ("content-type", "authorization")
        headers = {name: request.headers[name] for name in names if name in request.headers}
        answer = proxy.answer(request.command, request.path, headers, _read(request))
        if answer is None:
            request.close_connection = True
            return
        kept_headers = {name: answer.headers[name] for name in KEPT if name in answer.headers}
        stated_length = int(answer.headers.get("content-length", 0))
        if stated_length > len(answer.content):  # it breaks off
            request.close_connection = True
            kept_headers["content-length"] = str(stated_length)
        give(request, answer.status_code, answer.content, kept_headers)

    with Loopback(respond) as server:
        yield server.url


def _read(request: BaseHTTPRequestHandler) -> bytes:
    if request.headers.get("transfer-encoding", "").lower() != "chunked":
        return request.rfile.read(int(request.headers.get("content-length", 0)))
    content = b""
    while size := int(request.rfile.readline().partition(b";")[0], 16):
        content += request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()
    return content
