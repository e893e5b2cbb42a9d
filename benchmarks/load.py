"""A load of HTTP requests: keep-alive connections in a closed loop, over raw sockets.

One process only finds the end of answers, so a request costs it less than a bare server.
"""

from __future__ import annotations

import gc
import selectors
import socket
from array import array
from collections import Counter
from dataclasses import dataclass, field
from math import ceil
from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HEADERS_END = b"\r\n\r\n"
LENGTH = b"content-length: "
ACCEPTED = b'"accepted"'
TIMEOUT_S = 60.0

LOOPBACK = "Host: 127.0.0.1\r\n"
"""The headers of a request to a server on this machine."""


@dataclass(slots=True)
class LoadResult:
    """The latencies of all answers in ns, and their statuses."""

    seconds: float = 0.0
    accepted: int = 0
    latencies: array[int] = field(default_factory=lambda: array("q"))
    statuses: Counter[bytes] = field(default_factory=Counter)

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile_ms(self, percent: float) -> float:
        return percentile(self.latencies, percent) / 1e6


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the least value that `percent` of all do not exceed.

    >>> percentile([5, 1, 9, 3], 50), percentile([5, 1, 9, 3], 99)
    (3, 9)
    """
    ranked_values = sorted(values)
    return ranked_values[max(0, ceil(len(ranked_values) * percent / 100) - 1)]


def post(path: str, body: bytes, headers: str = LOOPBACK) -> bytes:
    return _format_request("POST", path, body, headers)


def put(path: str, body: bytes) -> bytes:
    return _format_request("PUT", path, body, LOOPBACK)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\n{LOOPBACK}\r\n".encode()


def _format_request(method: str, path: str, body: bytes, headers: str) -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\n{headers}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class LoadConnection:
    """One keep-alive connection and its remaining requests."""

    __slots__ = ("_held", "requests", "sent_at", "socket")

    def __init__(self, port: int, requests: Iterable[bytes] = (), host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.requests: Iterator[bytes] = iter(requests)
        self.sent_at = 0
        self._held = b""

    def send_next(self) -> bool:
        """Send the next request, or return false."""
        request = next(self.requests, None)
        if request is None:
            return False
        self.sent_at = perf_counter_ns()
        self.socket.sendall(request)
        return True

    def receive(self) -> bytes | None:
        """Receive data, and return the answer once it is whole.

        Raises `ConnectionError` if the server closed the connection.
        """
        came = self.socket.recv(65536)
        if not came:
            raise ConnectionError("the server closed the connection")
        whole_answer = self._held + came if self._held else came
        if len(whole_answer) < end_of_answer(whole_answer):
            self._held = whole_answer
            return None
        self._held = b""
        return whole_answer

    def ask(self, request: bytes) -> bytes:
        self.socket.sendall(request)
        return self.wait()

    def wait(self) -> bytes:
        while (answer := self.receive()) is None:
            pass
        return answer

    def close(self) -> None:
        self.socket.close()


def end_of_answer(received_bytes: bytes) -> int:
    r"""Return the length of the first answer, a larger one if unknown.

    >>> end_of_answer(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{")
    40
    """
    head = received_bytes.find(HEADERS_END)
    if head < 0:
        return len(received_bytes) + 1
    length_place = received_bytes.find(LENGTH, 0, head)
    if length_place < 0:
        return head + len(HEADERS_END)
    begin = length_place + len(LENGTH)
    return (
        head + len(HEADERS_END) + int(received_bytes[begin : received_bytes.find(b"\r\n", begin)])
    )


def drive(port: int, scripts: Sequence[Iterable[bytes]], host: str = "127.0.0.1") -> LoadResult:
    """Send each script over a connection, a request after each answer."""
    connections = [LoadConnection(port, script, host) for script in scripts]
    gc.disable()
    try:
        return _drive_connections(connections)
    finally:
        gc.enable()
        for connection in connections:
            connection.close()


def _drive_connections(connections: Sequence[LoadConnection]) -> LoadResult:
    load_result = LoadResult()
    took = load_result.latencies.append
    statuses = load_result.statuses
    with selectors.DefaultSelector() as selector:
        for each in connections:
            selector.register(each.socket, selectors.EVENT_READ, each)
        begun_ns = perf_counter_ns()
        open_ = sum([connection.send_next() for connection in connections])
        while open_:
            for key, _ in selector.select(TIMEOUT_S) or _no_answer():
                connection: LoadConnection = key.data
                answer = connection.receive()
                if answer is None:
                    continue
                took(perf_counter_ns() - connection.sent_at)
                statuses[answer[9:12]] += 1
                load_result.accepted += answer.count(ACCEPTED)
                if not connection.send_next():
                    open_ -= 1
        load_result.seconds = (perf_counter_ns() - begun_ns) / 1e9
    return load_result


def _no_answer() -> list[tuple[selectors.SelectorKey, int]]:
    raise TimeoutError(f"no answer within {TIMEOUT_S:g} s")
