"""Finds free ports of this machine, and those in use."""

from __future__ import annotations

import socket
from contextlib import closing

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
