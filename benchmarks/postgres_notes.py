"""Durable single notes into PostgreSQL, from few and many connections, and where its disk is slow.

Beside the bare server, which answers 204 to everything, two others show what group commit gives.
Both make a transaction of each request: the same controller, and a plain app over several sessions,
whose commits the database gathers by itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples, Target
from benchmarks.load import drive
from benchmarks.postgres_server import postgres, slow_down_syncs
from benchmarks.processes import bare_server, controller, plain_server
from benchmarks.single_notes import create_stream
from benchmarks.taken import Aim, Taken, figures
from benchmarks.writers import Writers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.processes import Server
    from tests.support.postgres import Server as Postgres

STREAM = "single"
PATIENT = b'{"writer_timeout_ms":3600000}'
"""Nobody is left out while others have their turn."""

WRITERS = 10_000
REQUESTS = 40_960
ALONE = 8
"""How many times fewer requests are posted where each is a transaction."""

FEW = Aim(connections=64, rate=0.18, slowest_ms=50)
MANY = Aim(connections=256, rate=0.18)
SLOW = Aim(connections=256, rate=0.18, where="2 ms more for each sync")
ADDED_MS = 2.0
TIMES_ALONE = Target("ratio", "at least", 6)
REMARK = "PostgreSQL, 10,000 writers in permuted order, marks every 200 ms"


@dataclass(slots=True)
class Noted:
    """A server that takes the notes of some writers, and what that took."""

    server: Server
    database: str
    writers: Writers
    marks: bool = True
    taken: Taken = field(default_factory=Taken)

    def begin(self) -> None:
        """Have every writer note once."""
        answered = drive(self.server.port, self.writers.first_notes())
        self.writers.check(answered, self.database, marks=self.marks)

    def scripts(self, connections: int, requests: int) -> list[list[bytes]]:
        """Return about so many requests of a note each, over so many connections."""
        return self.writers.scripts(connections, -(-requests // connections), 1)

    def load(self, scripts: list[list[bytes]]) -> None:
        """Post the notes, and see that they are stored."""
        answered = self.taken.load(self.server, scripts)
        self.writers.check(answered, self.database, marks=self.marks)


@dataclass(frozen=True, slots=True)
class InTurn:
    """A controller and the bare server, which get the same requests in turn."""

    run: Run
    ours: Noted
    floor: Server
    requests: int

    def measure(self, aim: Aim, *others: Noted, remark: str = REMARK) -> list[Figure]:
        """Measure a load, in turn with fewer notes of each of the others."""
        self.ours.taken, bare = Taken(), Taken()
        for repeat in range(self.run.repeats(full=7, quick=2)):
            self.run.say(f"{aim.name}, repeat {repeat + 1}")
            scripts = self.ours.scripts(aim.connections, self.requests)
            bare.load(self.floor, scripts)
            self.ours.load(scripts)
            for other in others:
                other.load(other.scripts(aim.connections, self.requests // ALONE))
        return figures(aim, self.ours.taken, bare, remark)


def measure(run: Run, writers: int = WRITERS, requests: int = REQUESTS) -> list[Figure]:
    """Post single notes to all in turn; then many at once, and then with slow syncs."""
    with postgres(run) as database, bare_server() as floor:
        if database is None:
            return []
        url = database.make_database()
        with serving(url, writers) as ours:
            in_turn = InTurn(run, ours, floor, requests)
            measured = few(in_turn, database)
            measured += in_turn.measure(MANY)
            before, after = slow_down_syncs(database, url, ADDED_MS)
            slow = f"{REMARK}; a commit takes {after:.2f} ms, else {before:.2f} ms"
            return measured + in_turn.measure(SLOW, remark=slow)


def few(in_turn: InTurn, database: Postgres) -> list[Figure]:
    """Measure at few connections, in turn with those that make a transaction of each request."""
    ours = in_turn.ours
    with (
        serving(database.make_database(), len(ours.writers), "benchmarks.one_by_one") as alone,
        plain(database.make_database(), len(ours.writers)) as simple,
    ):
        measured = in_turn.measure(FEW, alone, simple)
    rates, same, sessions = (Samples(tuple(each.taken.rates)) for each in (ours, alone, simple))
    return [
        *measured,
        Figure(FEW.name, "/s", rates, same, "the same, a transaction each", TIMES_ALONE),
        Figure(FEW.name, "/s", rates, sessions, "plain app, a transaction each, 16 sessions"),
    ]


@contextmanager
def serving(database: str, writers: int, program: str = "controller") -> Iterator[Noted]:
    """Serve a controller whose writers have begun."""
    with controller(database, program) as server:
        create_stream(server, STREAM, PATIENT)
        noted = Noted(server, database, Writers(STREAM, writers))
        noted.begin()
        yield noted


@contextmanager
def plain(database: str, writers: int) -> Iterator[Noted]:
    """Serve the plain app, whose stream a controller made."""
    with controller(database) as server:
        create_stream(server, STREAM)
    with plain_server(database) as server:
        noted = Noted(server, database, Writers(STREAM, writers), marks=False)
        noted.begin()
        yield noted
