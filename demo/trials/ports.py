"""Ports of this machine: which are free, and on which something listens."""

from __future__ import annotations

import socket
from contextlib import closing

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Return a port on which nothing listens now."""
    with closing(socket.socket()) as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    """Return whether something listens on a port."""
    with closing(socket.socket()) as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
