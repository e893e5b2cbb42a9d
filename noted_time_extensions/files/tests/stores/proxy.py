"""A proxy of a store that counts requests and disturbs some of them."""

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Literal

from tests.support.loopback import Loopback, give

Kind = Literal["lost", "slow down", "unconditional", "unordered"]


@dataclass
class Fault:
    """What happens to the next `count` requests of a method whose target has `match`.

    - ``lost``: the store carries the request out, and its answer does not arrive.
    - ``slow down``: the store refuses it with 503.
    - ``unconditional``: the store does not see the conditions.
    - ``unordered``: the store ignores where a list begins.
    """

    kind: Kind
    method: str
    count: int = 1_000_000
    match: str = ""


class Proxy(Loopback):
    """The proxy, and the `counts` of the requests by method; a list is a LIST."""

    def __init__(self, port: int) -> None:
        super().__init__(self.forward)
        self.counts: Counter[str] = Counter()
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._port = port

    @contextmanager
    def spoil(self, *faults: Fault) -> Iterator[None]:
        self._faults = list(faults)
        try:
            yield
        finally:
            self._faults = []

    def forward(self, request: BaseHTTPRequestHandler) -> None:
        is_list = request.command == "GET" and "list-type=2" in request.path
        with self._lock:
            self.counts["LIST" if is_list else request.command] += 1
            fault = next(
                (fault_rule for fault_rule in self._faults if self._applies(fault_rule, request)),
                None,
            )
            if fault is not None:
                fault.count -= 1
        kind = None if fault is None else fault.kind
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if kind == "slow down":
            give(request, 503, b"", {})
            return
        target = request.path
        dropped_headers = {"connection"}
        if kind == "unconditional":
            dropped_headers |= {"if-none-match", "if-match"}
        if kind == "unordered":
            url, _, query = target.partition("?")
            left = (
                parameter
                for parameter in query.split("&")
                if not parameter.startswith("start-after")
            )
            target = f"{url}?{'&'.join(left)}"
        headers = {n: v for n, v in request.headers.items() if n.lower() not in dropped_headers}
        upstream = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            upstream.request(request.command, target, body or None, headers)
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        if kind == "lost":
            request.close_connection = True
            return
        left_out = {"connection", "transfer-encoding", "server", "date"}
        kept_headers = {
            n.lower(): value for n, value in answer.getheaders() if n.lower() not in left_out
        }
        give(request, answer.status, content, kept_headers)

    @staticmethod
    def _applies(fault: Fault, asked: BaseHTTPRequestHandler) -> bool:
        is_it = fault.method == asked.command and fault.match in asked.path
        return is_it and fault.count > 0
