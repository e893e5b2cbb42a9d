"""Finds free ports of this machine, and those in use."""

from __future__ import annotations

import argparse
import socket
from contextlib import closing

LOOPBACK = "127.0.0.1"
HIGHEST_PORT = 65_531
"""The highest first port of a program that listens on up to five."""


def free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def parse_port(text: str) -> int:
    """Return the port that an option of `./run` names."""
    if not (text.isdecimal() and 0 < int(text) <= HIGHEST_PORT):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 1 to {HIGHEST_PORT}")
    return int(text)
