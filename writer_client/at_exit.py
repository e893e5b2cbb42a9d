"""How clients that are still open when the process ends are closed."""

from __future__ import annotations

import atexit
import time
from typing import Protocol

EXIT_WAIT_S = 2.0
"""How long all of them together may delay the end of the process."""


class OpenClient(Protocol):
    """A client that is open."""

    def end_soon(self) -> None:
        """Post what waits at once."""

    def end(self, timeout_s: float) -> None:
        """Flush for at most that long, log what was not sent, and raise nothing."""


open_clients: set[OpenClient] = set()


def end_all() -> None:
    """Flush all clients at once, for two seconds in all."""
    deadline = time.monotonic() + EXIT_WAIT_S
    clients = list(open_clients)
    for client in clients:
        client.end_soon()
    for client in clients:
        client.end(max(0.0, deadline - time.monotonic()))


atexit.register(end_all)
