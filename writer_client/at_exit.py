"""Closes the clients that are still open when the process ends."""

from __future__ import annotations

import atexit
import time
from typing import Protocol

EXIT_WAIT_S = 2.0


class OpenClient(Protocol):
    """A client that has not been closed."""

    def end_soon(self) -> None:
        """Begin to post the waiting notes."""

    def end(self, timeout_s: float) -> None:
        """Flush for at most `timeout_s`, and log the notes that were not sent."""


open_clients: set[OpenClient] = set()


def end_all() -> None:
    deadline = time.monotonic() + EXIT_WAIT_S
    clients = list(open_clients)
    for client in clients:
        client.end_soon()
    for client in clients:
        client.end(max(0.0, deadline - time.monotonic()))


atexit.register(end_all)
