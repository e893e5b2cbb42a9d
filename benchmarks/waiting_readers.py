"""The CPU time of a mark for each of many readers that wait for it.

The floor is as many requests to a bare server.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples, Target
from benchmarks.load import LoadConnection, get
from benchmarks.processes import bare_server, controller
from benchmarks.single_notes import BARE, create_stream
from benchmarks.stored import sqlite_url
from benchmarks.visible_marks import STREAM, Reader, Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.processes import Server

READERS = 1000
ASKING = 16  # limited by the default number of open files
MARKS_AT_ONCE = 10
"""How many marks are a sample, as the system counts CPU time by hundredths of a second."""

QUIET_S = 0.05
"""A server that used no CPU time for so long has all polls waiting."""


def measure(run: Run, readers: int = READERS) -> list[Figure]:
    """Let each mark answer all readers, then send the bare server as many requests."""
    database = sqlite_url(run.directory / "readers.db")
    ours = []
    floor = []
    with bare_server() as bare, controller(database) as server, ExitStack() as open_:

        def connect(port: int) -> LoadConnection:
            return open_.enter_context(closing(LoadConnection(port)))

        create_stream(server, STREAM, b'{"mark_interval_ms": 0}')
        turns = Turns(1)
        writer = connect(server.port)
        waiting = [Reader(connect(server.port)) for _ in range(readers)]
        asking = [connect(bare.port) for _ in range(min(readers, ASKING))]
        writer.ask(turns.join())
        for reader in waiting:
            reader.wait()
            reader.take()
        for repeat in range(run.repeats(full=7, quick=2)):
            run.say(f"a mark for {readers} readers, repeat {repeat + 1}")
            ours.append(_us(server, readers, partial(_mark, server, waiting, turns, writer)))
            floor.append(_us(bare, readers, partial(_requests, asking, readers)))
    return [
        Figure(
            f"CPU of a mark for each of {readers:,} waiting readers",
            "µs",
            Samples(tuple(ours)),
            Samples(tuple(floor)),
            BARE,
            Target("ratio", "at most", 4),
        )
    ]


def _mark(server: Server, waiting: list[Reader], turns: Turns, writer: LoadConnection) -> None:
    for reader in waiting:
        reader.wait()
    before = -1.0
    while (now := server.cpu_seconds()) != before:
        before = now
        time.sleep(QUIET_S)
    writer.ask(turns.next())
    for reader in waiting:
        reader.take()


def _requests(asking: list[LoadConnection], count: int) -> None:
    for first in range(0, count, len(asking)):
        connections = asking[: count - first]
        for connection in connections:
            connection.socket.sendall(get("/"))
        for connection in connections:
            connection.wait()


def _us(server: Server, readers: int, once: Callable[[], None]) -> float:
    """Return the CPU time of the server for each reader, in µs."""
    before = server.cpu_seconds()
    for _ in range(MARKS_AT_ONCE):
        once()
    return (server.cpu_seconds() - before) / MARKS_AT_ONCE / readers * 1e6
