"""Give each thread a connection for one call at a time, with a deadline for the whole call.

httpx limits the time of each read only, so an answer of one byte per second never ends. A separate
thread therefore shuts down the socket of a call that exceeds its deadline.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import httpx

SOCKET_EVENTS = ("connect_tcp.complete", "start_tls.complete")


class PooledConnection:
    """An HTTP client with one connection; `is_late` if a call exceeded its deadline."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.ends_at = 0.0
        self.is_over = self.is_late = False
        self._socket: socket.socket | None = None

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith(SOCKET_EVENTS):
            self._socket = info["return_value"].get_extra_info("socket")
            if self.is_over:
                self.end()

    def end(self) -> None:
        """End the call in progress, and any later call as soon as it is connected.

        Closing the socket would not wake the thread that reads from it.
        """
        self.is_over = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class ConnectionPool:
    """Grows to the largest number of simultaneous calls."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = {**options, "limits": httpx.Limits(max_connections=1)}
        self._lock = threading.Lock()
        self._is_over = False
        self._lines = [PooledConnection(httpx.Client(**self._options))]
        self._idle = [*self._lines]

    @contextmanager
    def acquire(self, seconds: float) -> Iterator[PooledConnection]:
        with self._lock:
            if not self._idle:
                self._idle.append(PooledConnection(httpx.Client(**self._options)))
                self._lines += self._idle
            connection = self._idle.pop()
            connection.is_over = self._is_over
            connection.is_late = False
        connection.ends_at = monotonic() + seconds
        _deadline_watch.add(connection)
        try:
            yield connection
        finally:
            _deadline_watch.remove(connection)
            with self._lock:
                self._idle.append(connection)

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            for connection in self._lines:
                connection.end()

    def close(self) -> None:
        for connection in self._lines:
            connection.http.close()


class _DeadlineWatch:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: set[PooledConnection] = set()
        self._thread: threading.Thread | None = None
        self._wakes_at = float("inf")

    def add(self, connection: PooledConnection) -> None:
        with self._changed:
            self._lines.add(connection)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="noted calls", daemon=True)
                self._thread.start()
            elif connection.ends_at < self._wakes_at:
                self._changed.notify()

    def remove(self, connection: PooledConnection) -> None:
        with self._changed:
            self._lines.remove(connection)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = monotonic()
                for connection in self._lines:
                    if connection.ends_at <= now and not connection.is_late:
                        connection.is_late = True
                        connection.end()
                deadlines = [
                    connection.ends_at for connection in self._lines if not connection.is_late
                ]
                self._wakes_at = min(deadlines, default=float("inf"))
                self._changed.wait(self._wakes_at - now if deadlines else None)


_deadline_watch = _DeadlineWatch()
if hasattr(os, "register_at_fork"):
    # a forked child lacks the thread, and a thread of the parent may have held the lock
    os.register_at_fork(after_in_child=lambda: vars(_deadline_watch).update(vars(_DeadlineWatch())))
