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

    def forward(self, asked: BaseHTTPRequestHandler) -> None:
        is_list = asked.command == "GET" and "list-type=2" in asked.path
        with self._lock:
            self.counts["LIST" if is_list else asked.command] += 1
            fault = next((each for each in self._faults if self._applies(each, asked)), None)
            if fault is not None:
                fault.count -= 1
        kind = None if fault is None else fault.kind
        body = asked.rfile.read(int(asked.headers.get("Content-Length") or 0))
        if kind == "slow down":
            give(asked, 503, b"", {})
            return
        target, dropped = asked.path, {"connection"}
        if kind == "unconditional":
            dropped |= {"if-none-match", "if-match"}
        if kind == "unordered":
            url, _, query = target.partition("?")
            left = (each for each in query.split("&") if not each.startswith("start-after"))
            target = f"{url}?{'&'.join(left)}"
        headers = {n: v for n, v in asked.headers.items() if n.lower() not in dropped}
        upstream = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            upstream.request(asked.command, target, body or None, headers)
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        if kind == "lost":
            asked.close_connection = True
            return
        left_out = {"connection", "transfer-encoding", "server", "date"}
        kept = {n.lower(): value for n, value in answer.getheaders() if n.lower() not in left_out}
        give(asked, answer.status, content, kept)

    @staticmethod
    def _applies(fault: Fault, asked: BaseHTTPRequestHandler) -> bool:
        is_it = fault.method == asked.command and fault.match in asked.path
        return is_it and fault.count > 0
