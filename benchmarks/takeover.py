"""How long time stops after the loss of a stream's owner: until the next mark.

The owner, one of two replicas, is lost with a note under way to it. The writer retries and
continues with the other replica, and a reader waits there for the mark of the first later note.
Then the lost replica is replaced.

A replica is lost in two ways. A killed one shows it at once, as its connections are closed; a
stopped one only by silence, like a lost machine.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from signal import SIGKILL, SIGSTOP, Signals
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from benchmarks.load import ACCEPTED, LoadConnection, get
from benchmarks.postgres_server import postgres
from benchmarks.processes import controller
from benchmarks.single_notes import create_stream
from benchmarks.visible_marks import Turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.processes import Server

STREAM = "survivor"
MEMBERS = 1000
LONGEST = Target("value", "at most", 6)
PATIENCE_S = 60.0
SETTLED_S = 30.0
THIS = 'noted_time_buckets{owner="this"}'
REPLICAS = "noted_time_replicas"
PAUSE_S = 0.02
INVALID = b'"invalid_'
WARM = 20
"""Number of notes before each loss, so that the stream is under way."""


@dataclass(slots=True)
class Pair:
    """Two replicas of a database; a lost one is replaced."""

    database: str
    stack: ExitStack
    servers: list[Server] = field(default_factory=list)

    def fill(self) -> None:
        """Start missing replicas, and wait until the streams are shared."""
        while len(self.servers) < 2:  # noqa: PLR2004 - a pair
            self.servers.append(self.stack.enter_context(controller(self.database)))
        _settle(self.servers)

    def owner(self) -> Server:
        """Remove and return the replica that has the stream."""
        return self.servers.pop(_owner_of(self.servers))


def measure(run: Run, members: int = MEMBERS) -> list[Figure]:
    """Kill the replica that has the stream, several times."""
    with postgres(run) as database, ExitStack() as stack:
        if database is None:
            return []
        pair = Pair(database.make_database(), stack)
        pair.fill()
        create_stream(pair.servers[0], STREAM, b'{"mark_interval_ms": 0}')
        turns = Turns(members, STREAM)
        _note_until_accepted(pair.servers[0], turns.join())
        killed_gaps = []
        stopped_gaps = []
        for loss in range(run.repeats(full=5, quick=1)):
            run.say(f"loss of a replica, {loss + 1}")
            killed_gaps.append(takeover(pair, turns, SIGKILL))
            stopped_gaps.append(takeover(pair, turns, SIGSTOP))
    return [*_figures("kill -9", killed_gaps), *_figures("kill -STOP", stopped_gaps)]


def takeover(pair: Pair, turns: Turns, stop_signal: Signals) -> float:
    """Lose the owner, and return the seconds until a mark covers a later note."""
    pair.fill()
    for _ in range(WARM):
        _note_until_accepted(pair.servers[0], turns.next())
    note = turns.next()
    owner = pair.owner()
    under_way = LoadConnection(owner.port)
    under_way.socket.sendall(note)
    owner.process.send_signal(stop_signal)
    lost_at = time.monotonic()
    (survivor,) = pair.servers
    _note_until_accepted(survivor, note)
    _note_until_accepted(survivor, turns.next())
    _wait_for_mark(survivor, turns.notes - turns.members)
    gap_s = time.monotonic() - lost_at
    under_way.close()
    owner.process.kill()
    return gap_s


def _figures(event: str, gaps_s: list[float]) -> list[Figure]:
    remark = f"{MEMBERS:,} members; the lease is 3 s"
    return [
        Figure(
            f"time stands after {event} of a replica", "s", Samples(tuple(gaps_s)), remark=remark
        ),
        Figure("the longest of these", "s", Samples((max(gaps_s),)), target=LONGEST),
    ]


def _note_until_accepted(server: Server, note: bytes) -> None:
    """Note until it is accepted: without an owner it may be refused."""
    deadline = time.monotonic() + PATIENCE_S
    while ACCEPTED not in (answer := _ask(server, note)):
        if time.monotonic() > deadline or INVALID in answer:
            raise WrongResult(answer.decode())
        time.sleep(PAUSE_S)


def _wait_for_mark(server: Server, lower: int) -> None:
    request = get(f"/v1/streams/{STREAM}/cut?complete_to={lower}")
    deadline = time.monotonic() + PATIENCE_S
    while not _ask(server, request).startswith(b"HTTP/1.1 200 "):
        if time.monotonic() > deadline:
            raise WrongResult(f"no mark of {lower} within {PATIENCE_S:g} s")
        time.sleep(PAUSE_S)


def _ask(server: Server, request: bytes) -> bytes:
    connection = LoadConnection(server.port)
    try:
        return connection.ask(request)
    finally:
        connection.close()


def _settle(servers: Sequence[Server]) -> None:
    """Wait until all servers know each other and have equal numbers of buckets."""
    deadline = time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:
        metrics_of_servers = [_metrics(server) for server in servers]
        replica_counts = {metrics.get(REPLICAS) for metrics in metrics_of_servers}
        if (
            replica_counts == {float(len(servers))}
            and len({metrics.get(THIS) for metrics in metrics_of_servers}) == 1
        ):
            return
        time.sleep(0.1)
    raise WrongResult(f"the streams are not shared after {SETTLED_S:g} s: {metrics_of_servers}")


def _owner_of(servers: Sequence[Server]) -> int:
    """Return the index of the server that has the stream and so shows its members."""
    line = f'noted_time_members{{state="live",stream="{STREAM}"}}'
    have = [number for number, server in enumerate(servers) if line in _metrics(server)]
    if len(have) != 1:
        raise WrongResult(f"{have} have the stream")
    return have[0]


def _metrics(server: Server) -> dict[str, float]:
    """Return a server's metrics: values by name with labels."""
    connection = LoadConnection(server.port)
    text = connection.ask(get("/metrics")).partition(b"\r\n\r\n")[2].decode()
    connection.close()
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}
