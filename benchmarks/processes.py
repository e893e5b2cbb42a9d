"""The measured servers: their start and end, and their CPU time."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import bare
from controller.store.migrate import migrate
from tools.trials.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

START_S = 120.0
STOP_S = 20.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A server process on a port of the loopback."""

    process: subprocess.Popen[Any]
    port: int

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its threads so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def bare_server() -> Iterator[Server]:
    with bare.bare_server() as (process, port):
        yield Server(process, port)


@contextmanager
def controller(database: str) -> Iterator[Server]:
    """Serve a controller over the database at a URL, created or migrated first."""
    port = free_port()
    migrate(database)
    words = ["-m", "controller", "serve", "--database", database, "--port", str(port)]
    with _serving([*words, "--log-level", "warning"], port) as server:
        yield server


@contextmanager
def _serving(words: list[str], port: int) -> Iterator[Server]:
    process = subprocess.Popen([sys.executable, *words])  # noqa: S603 - our own programs
    try:
        _wait_for(process, port)
        yield Server(process, port)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"the server did not start: exit code {process.poll()}")
