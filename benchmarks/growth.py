"""What writers and segments cost a controller on PostgreSQL: of each note, in memory, at its start.

Every note names all the segments of its writer's position. Each figure stands beside that of the
fewest writers and segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples
from benchmarks.load import drive
from benchmarks.postgres_server import postgres
from benchmarks.processes import controller
from benchmarks.single_notes import create_stream
from benchmarks.writers import Writers

if TYPE_CHECKING:
    from benchmarks.processes import Server
    from tests.support.postgres import Server as Postgres

SIZES = tuple((writers, segments) for segments in (16, 256) for writers in (1000, 10_000, 100_000))
CONNECTIONS = 64
REQUESTS = 20_480
KIB = 1024
STREAM = "growing"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one size costs: samples of µs a note, bytes a writer, seconds of a start."""

    writers: int
    segments: int
    note_us: Samples
    writer_kib: Samples
    load_s: Samples

    @property
    def remark(self) -> str:
        """Which size it is."""
        return f"{self.writers:,} writers, {self.segments} segments in each position"


def measure(
    run: Run, sizes: tuple[tuple[int, int], ...] = SIZES, requests: int = REQUESTS
) -> list[Figure]:
    """Measure every size in a database of its own."""
    with postgres(run) as server:
        if server is None:
            return []
        costs = []
        for writers, segments in sizes[: run.repeats(len(sizes), 2)]:
            run.say(f"{writers:,} writers with {segments} segments each")
            costs.append(cost(run, server, Writers(STREAM, writers, segments), requests))
    return [figure for cost in costs for figure in _figures(cost, costs[0])]


def cost(run: Run, server: Postgres, writers: Writers, requests: int) -> Cost:
    """Have the writers join and note on, then start the controller anew."""
    database, repeats = server.make_database(), run.repeats(full=3, quick=1)
    with controller(database) as taking:
        empty_s = taking.start_s
        create_stream(taking, STREAM)
        before = taking.memory_bytes()
        writers.check(drive(taking.port, writers.first_notes()), database)
        grown = (taking.memory_bytes() - before) / len(writers) / KIB
        note_us = [_note_us(taking, writers, requests, database) for _ in range(repeats)]
    return Cost(
        writers=len(writers),
        segments=writers.segments,
        note_us=Samples(tuple(note_us)),
        writer_kib=Samples((grown,)),
        load_s=Samples(tuple(_start_s(database) - empty_s for _ in range(repeats))),
    )


def _note_us(taking: Server, writers: Writers, requests: int, database: str) -> float:
    scripts = writers.scripts(CONNECTIONS, -(-requests // CONNECTIONS), 1)
    before = taking.cpu_seconds()
    answered = drive(taking.port, scripts)
    took = taking.cpu_seconds() - before
    writers.check(answered, database)
    return took / answered.accepted * 1e6


def _start_s(database: str) -> float:
    with controller(database) as loading:
        return loading.start_s


def _figures(cost: Cost, least: Cost) -> list[Figure]:
    measured = (
        ("CPU time of a single note on the server", "µs", cost.note_us, least.note_us),
        ("memory of a writer", "KiB", cost.writer_kib, least.writer_kib),
        ("loading at start", "s", cost.load_s, least.load_s),
    )
    return [
        Figure(name, unit, ours, floor, least.remark, remark=cost.remark)
        for name, unit, ours, floor in measured
    ]
