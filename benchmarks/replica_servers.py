"""Several controllers on one database: when each has its share, and which of them has a stream."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from benchmarks.figures import WrongResult
from benchmarks.load import Connection, get
from benchmarks.processes import controller

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.processes import Server

SETTLED_S = 30.0
THIS = 'noted_time_buckets{owner="this"}'
REPLICAS = "noted_time_replicas"


@contextmanager
def replicas(database: str, count: int) -> Iterator[list[Server]]:
    """Serve so many controllers over the database, each with its share of the streams."""
    with ExitStack() as stack:
        servers = [stack.enter_context(controller(database)) for _ in range(count)]
        settle(servers)
        yield servers


def settle(servers: Sequence[Server]) -> None:
    """Wait until each server knows of all of them, and none has more buckets than any other."""
    deadline = time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:
        shown = [metrics(server) for server in servers]
        known = {each.get(REPLICAS) for each in shown}
        if known == {float(len(servers))} and len({each.get(THIS) for each in shown}) == 1:
            return
        time.sleep(0.1)
    raise WrongResult(f"the streams are not shared after {SETTLED_S:g} s: {shown}")


def owner_of(servers: Sequence[Server], stream: str) -> int:
    """Return which of the servers has the stream; only that one shows its members."""
    line = f'noted_time_members{{state="live",stream="{stream}"}}'
    have = [number for number, server in enumerate(servers) if line in metrics(server)]
    if len(have) != 1:
        raise WrongResult(f"the stream {stream!r} is had by {have}")
    return have[0]


def metrics(server: Server) -> dict[str, float]:
    """Return what a server shows of itself, each value by its name with its labels."""
    connection = Connection(server.port)
    text = connection.ask(get("/metrics")).partition(b"\r\n\r\n")[2].decode()
    connection.close()
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}
