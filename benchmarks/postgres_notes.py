"""Durable single notes into PostgreSQL, over few and many connections, and on a slow disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.load import drive
from benchmarks.postgres_server import postgres, slow_down_syncs
from benchmarks.processes import bare_server, controller
from benchmarks.single_notes import Aim, Taken, create_stream, figures
from benchmarks.writers import Writers

if TYPE_CHECKING:
    from benchmarks.figures import Figure, Run
    from benchmarks.processes import Server

WRITERS = 10_000
REQUESTS = 40_960
FEW = Aim(connections=64, rate=0.18, slowest_ms=50)
MANY = Aim(connections=256, rate=0.18)
SLOW = Aim(connections=256, rate=0.18, where="2 ms more for each sync")
ADDED_MS = 2.0
REMARK = "PostgreSQL"


@dataclass(frozen=True, slots=True)
class InTurn:
    """A controller and the bare server, with the same requests in turn."""

    run: Run
    server: Server
    database: str
    floor: Server
    writers: Writers
    requests: int

    def measure(self, aim: Aim, remark: str = REMARK) -> list[Figure]:
        ours = Taken()
        bare = Taken()
        for repeat in range(self.run.repeats(full=7, quick=2)):
            self.run.say(f"{aim.name}, repeat {repeat + 1}")
            requests_each = -(-self.requests // aim.connections)
            scripts = self.writers.scripts(aim.connections, requests_each, 1)
            bare.load(self.floor, scripts)
            self.writers.check(ours.load(self.server, scripts), self.database)
        return figures(aim, ours, bare, remark)


def measure(run: Run, writers: int = WRITERS, requests: int = REQUESTS) -> list[Figure]:
    with postgres(run) as database, bare_server() as floor:
        if database is None:
            return []
        url = database.make_database()
        note_writers = Writers("single", writers)
        with controller(url) as server:
            create_stream(server, note_writers.stream)
            note_writers.check(drive(server.port, note_writers.first_notes()), url)
            in_turn = InTurn(run, server, url, floor, note_writers, requests)
            figures = in_turn.measure(FEW) + in_turn.measure(MANY)
            before, after = slow_down_syncs(database, url, ADDED_MS)
            slow = f"{REMARK}; a commit takes {after:.2f} ms, else {before:.2f} ms"
            return figures + in_turn.measure(SLOW, slow)
