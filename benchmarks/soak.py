"""Controllers on PostgreSQL under a steady load for minutes: what do they take, and do they grow?

Writers on 100 streams note the wall clock once a second, each in a request of its own: 5,000 at one
controller, then 10,000 at the two that own their streams. Their marks are kept for a minute: after
that, neither memory nor database should grow.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure, Run, Samples, Target
from benchmarks.load import post
from benchmarks.pace import Pace
from benchmarks.postgres_server import postgres
from benchmarks.processes import cpu_seconds
from benchmarks.replica_servers import owner_of, replicas
from benchmarks.single_notes import create_stream
from benchmarks.stored import offsets_stored
from benchmarks.writers import check_statuses, check_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

    from benchmarks.load import Answered
    from benchmarks.processes import Server
    from tests.support.postgres import Server as Postgres

STREAMS = 100
WRITERS = 5_000
"""For each controller."""
SEGMENTS = 16
SETTINGS = b'{"mark_retention_ms":60000}'
SAMPLES = 60
SETTLED = 0.4
"""Which part of the samples is left out at first: marks gather, the database finds its size."""

MIB = 1024 * 1024
GROWTH = Target("ratio", "at most", 1.05)
SLOWEST = Target("value", "at most", 60)

_LAG = """
SELECT coalesce(percentile_disc(0.99) WITHIN GROUP (ORDER BY written_at - lower), 0)
FROM mark WHERE written_at > %s
"""
_SIZE = "SELECT pg_database_size(current_database())"
_PIDS = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"


class Steady:
    """Writers of many streams that note the wall clock in turn, each over one connection."""

    def __init__(self, writers: int, streams: int, connections: int) -> None:
        """Begin before the first note; the connections are a multiple of the streams."""
        self.streams = [f"soak-{number}" for number in range(streams)]
        self.posted = 0
        self._offsets = [0] * writers
        self._turns = [self._in_turn(range(n, writers, connections)) for n in range(connections)]

    def note(self, connection: int) -> bytes:
        """Return the request of the writer whose turn it is on a connection."""
        writer = next(self._turns[connection])
        self.posted += 1
        self._offsets[writer] += 1
        body = b'{"notes":[{"writer":"writer-%06d","time":%d,"position":{"%d":%d}}]}' % (
            writer,
            time.time_ns() // 1_000_000,
            writer % SEGMENTS,
            self._offsets[writer],
        )
        return post(f"/v1/streams/{self.streams[writer % len(self.streams)]}/notes", body)

    def check(self, answered: Answered, database: str) -> None:
        """Raise `WrongResult` unless each note was accepted and is stored."""
        check_statuses(answered)
        stored = sum(offsets_stored(database, stream) for stream in self.streams)
        check_stored(self.posted, answered.accepted, stored)

    @staticmethod
    def _in_turn(writers: range) -> Iterator[int]:
        while True:
            yield from writers


@dataclass(slots=True)
class Sampler:
    """Looks at controllers and their database now and then, in a thread of its own."""

    servers: list[Server]
    session: Connection[Any]
    every_s: float
    memory_mib: list[float] = field(default_factory=list)
    database_mib: list[float] = field(default_factory=list)
    lag_ms: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    database_cores: list[float] = field(default_factory=list)

    def watch(self, stop: Event) -> None:
        """Take samples until told to stop."""
        before = self._cpu_seconds()
        while not stop.wait(self.every_s):
            now = self._cpu_seconds()
            self.cores.append((now[0] - before[0]) / self.every_s)
            self.database_cores.append((now[1] - before[1]) / self.every_s)
            before = now
            self.memory_mib.append(sum(each.memory_bytes() for each in self.servers) / MIB)
            self.database_mib.append(self._asked(_SIZE) / MIB)
            since_ms = (time.time() - self.every_s) * 1000
            self.lag_ms.append(self._asked(_LAG, int(since_ms)))

    def _cpu_seconds(self) -> tuple[float, float]:
        pids = [pid for (pid,) in self.session.execute(_PIDS)]
        return sum(each.cpu_seconds() for each in self.servers), sum(map(cpu_seconds, pids))

    def _asked(self, question: str, *values: int) -> float:
        ((found,),) = self.session.execute(question.encode(), values)
        return float(found)


def measure(run: Run, writers: int = WRITERS, streams: int = STREAMS) -> list[Figure]:
    """Have all writers note once a second for as long as the run says."""
    with postgres(run) as server:
        if server is None:
            return []
        figures: list[Figure] = []
        for controllers in (1, 2):
            due = controllers * writers
            run.say(f"{due:,} writers at {controllers}, for {run.minutes:g} minutes")
            steady = Steady(due, streams, 2 * streams)
            figures += _soaked(server, steady, due, run.minutes * 60, controllers)
        return figures


def _soaked(
    server: Postgres, steady: Steady, per_second: int, seconds: float, controllers: int
) -> list[Figure]:
    database = server.make_database()
    with replicas(database, controllers) as taking, server.session(database) as session:
        for stream in steady.streams:
            create_stream(taking[0], stream, SETTINGS)
        owners = [taking[owner_of(taking, stream)].port for stream in steady.streams]
        sampler = Sampler(taking, session, seconds / SAMPLES)
        with closing(Pace(2 * owners, per_second)) as pace:
            answered = _watched(sampler, pace, steady, seconds)
        steady.check(answered, database)
    return _figures(sampler, answered, per_second, controllers)


def _watched(sampler: Sampler, pace: Pace, steady: Steady, seconds: float) -> Answered:
    stop = Event()
    thread = Thread(target=sampler.watch, args=(stop,))
    thread.start()
    try:
        return pace.drive(seconds, steady.note)
    finally:
        stop.set()
        thread.join()


def _figures(
    sampler: Sampler, answered: Answered, per_second: int, controllers: int
) -> list[Figure]:
    def figure(name: str, unit: str, values: list[float], target: Target | None = None) -> Figure:
        named = f"soak, {per_second:,} writers at {controllers}: {name}"
        return Figure(named, unit, Samples(tuple(values)), target=target)

    def grown(what: str, values: list[float]) -> list[Figure]:
        """Return all samples, and the last quarter of them beside the first."""
        whole, quarter = figure(what, "MiB", values), -(-len(values) // 4)
        first, last = Samples(tuple(values[:quarter])), Samples(tuple(values[-quarter:]))
        return [whole, Figure(f"{whole.name}, at the end", "MiB", last, first, "at first", GROWTH)]

    settled = slice(int(SAMPLES * SETTLED), None)
    latencies = [answered.percentile_ms(percent) for percent in (50, 99)]
    return [
        figure("notes taken", "/s", [answered.per_second]),
        figure("answered after they were due, p50", "ms", latencies[:1]),
        figure("answered after they were due, p99", "ms", latencies[1:], SLOWEST),
        figure("CPU of the controllers", "cores", sampler.cores[settled]),
        figure("CPU of the database", "cores", sampler.database_cores[settled]),
        figure("lag of a mark when it is written, p99", "ms", sampler.lag_ms[settled]),
        *grown("memory of the controllers", sampler.memory_mib[settled]),
        *grown("size of the database", sampler.database_mib[settled]),
    ]
