"""Closes the clients that are still open when the process ends."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from typing import NamedTuple

EXIT_WAIT_S = 2.0


def do_nothing() -> None: ...


class OpenClient(NamedTuple):
    """How a client ends that was not closed."""

    end: Callable[[float], None]
    """Flushes for at most so many seconds, and logs the notes that were not sent."""
    end_soon: Callable[[], None] = do_nothing
    """Begins to post the waiting notes."""
    leave_to_parent: Callable[[], None] = do_nothing
    """Refuses every later call in a forked process."""


open_clients: dict[object, OpenClient] = {}


def end_client(client: object, timeout_s: float) -> None:
    """End a client as at the end of the process, unless it is closed."""
    if client in open_clients:
        open_clients[client].end(timeout_s)


def end_all() -> None:
    deadline = time.monotonic() + EXIT_WAIT_S
    clients = list(open_clients.values())
    for client in clients:
        client.end_soon()
    for client in clients:
        client.end(max(0.0, deadline - time.monotonic()))


def leave_all_to_parent() -> None:
    for client in open_clients.values():
        client.leave_to_parent()


atexit.register(end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=leave_all_to_parent)
