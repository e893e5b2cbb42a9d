"""How long after a note at one replica a reader that waits at another has the mark.

Either the note is taken where it came and the other replica hears of the mark and reads it, or the
note goes on to the other replica, where the reader is. The floor is what cannot be left out of the
first: a synced commit of which another session is notified, and two round trips to a bare server.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from benchmarks.load import Connection, get, percentile
from benchmarks.processes import bare_server
from benchmarks.replica_servers import owner_of, replicas
from benchmarks.single_notes import create_stream
from benchmarks.visible_marks import PARKED_S, Reader, Turns, note_and_see

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.processes import Server
    from tests.support.postgres import Server as Postgres

MEMBERS = 1000
STREAMS = 12
"""Enough that each of two replicas has one, but for one time in two thousand."""

MEDIAN = Target("value", "at most", 15)
SLOWEST = Target("value", "at most", 60)
BEAT = "UPDATE beat SET beats = beats + 1"


@dataclass(slots=True)
class Path:
    """A stream whose notes go to one replica and whose reader waits at the other."""

    turns: Turns
    writer: Connection
    reader: Reader

    def sample(self) -> float:
        """Return the ms from a note's first byte until the reader has its mark."""
        return note_and_see(self.turns, self.writer, self.reader)

    def close(self) -> None:
        """Hang up."""
        self.writer.close()
        self.reader.connection.close()


@dataclass(slots=True)
class Taken:
    """Latencies in ms, taken in turn."""

    read_there: list[float] = field(default_factory=list)
    sent_on: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)


def measure(run: Run, postgres: Postgres, members: int = MEMBERS) -> list[Figure]:
    """Note at one of two replicas and read at the other; then the floor; many times."""
    repeats, samples = run.repeats(full=5, quick=2), run.repeats(full=400, quick=40)
    database = postgres.make_database()
    with (
        bare_server() as bare,
        replicas(database, 2) as servers,
        round_trips_and_notified_commit(bare.port, postgres, database) as least,
        paths(servers, members) as (read_there, sent_on),
    ):
        taken = [Taken() for _ in range(repeats)]
        for repeat, each in enumerate(taken):
            run.say(f"note at one replica to mark at the other, repeat {repeat + 1}")
            for _ in range(samples):
                each.read_there.append(read_there.sample())
                each.sent_on.append(sent_on.sample())
                each.floor.append(least())
    return [
        _figure(where, percent, ours, [each.floor for each in taken], target)
        for where, ours in (
            ("taken there", [each.read_there for each in taken]),
            ("sent on", [each.sent_on for each in taken]),
        )
        for percent, target in ((50, MEDIAN), (99, SLOWEST))
    ]


@contextmanager
def paths(servers: list[Server], members: int) -> Iterator[tuple[Path, Path]]:
    """Open a path whose stream the first server has, and one whose stream the second has."""
    names = [f"seen-{number}" for number in range(STREAMS)]
    for name in names:
        create_stream(servers[0], name, b'{"mark_interval_ms": 0}')
    had = {owner_of(servers, name): name for name in names}
    if len(had) != len(servers):
        raise WrongResult("one replica has all the streams")
    with (
        closing(path(servers, had[0], members)) as first,
        closing(path(servers, had[1], members)) as second,
    ):
        yield first, second


def path(servers: list[Server], stream: str, members: int) -> Path:
    """Have the members of a stream join, and its reader have their mark."""
    turns, writer = Turns(members, stream), Connection(servers[0].port)
    writer.ask(turns.join())
    reader = Reader(Connection(servers[1].port), stream)
    reader.wait()
    reader.take()
    return Path(turns, writer, reader)


@contextmanager
def round_trips_and_notified_commit(
    port: int, postgres: Postgres, database: str
) -> Iterator[Callable[[], float]]:
    """Yield what takes one sample of the floor, in ms."""
    with postgres.session(database) as session, postgres.session(database) as listening:
        session.execute("CREATE TABLE beat (beats int)")
        session.execute("INSERT INTO beat VALUES (0)")
        listening.execute("LISTEN beats")
        connection = Connection(port)

        def sample() -> float:
            time.sleep(PARKED_S)
            begun = time.perf_counter()
            connection.ask(get("/"))
            with session.pipeline(), session.transaction():
                session.execute(BEAT)
                session.execute("NOTIFY beats")
            list(listening.notifies(timeout=1, stop_after=1))
            connection.ask(get("/"))
            return (time.perf_counter() - begun) * 1e3

        yield sample
        connection.close()


def _figure(
    where: str, percent: int, ours: list[list[float]], floor: list[list[float]], target: Target
) -> Figure:
    return Figure(
        f"note at one replica to mark at the other, {where}, p{percent}",
        "ms",
        Samples(tuple(percentile(each, percent) for each in ours)),
        Samples(tuple(percentile(each, percent) for each in floor)),
        "a commit that notifies, and two round trips",
        target,
        f"{MEMBERS:,} members, each note a mark",
    )
