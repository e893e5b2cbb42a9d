"""A controller on PostgreSQL under a steady load for minutes: what does it take, and does it grow?

10,000 writers on 100 streams note the wall clock once a second, each in a request of its own. Their
marks are kept for a minute: after that, neither memory nor database should grow.
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
from benchmarks.processes import controller, cpu_seconds
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
WRITERS = 10_000
SEGMENTS = 16
SETTINGS = b'{"mark_retention_ms":60000}'
SAMPLES = 60
SETTLED = 0.4
"""Which part of the samples is left out at first: marks gather, the database finds its size."""

MIB = 1024 * 1024
GROWTH = Target("ratio", "at most", 1.05)

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
    """Looks at a controller and its database now and then, in a thread of its own."""

    server: Server
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
            self.memory_mib.append(self.server.memory_bytes() / MIB)
            self.database_mib.append(self._asked(_SIZE) / MIB)
            since_ms = (time.time() - self.every_s) * 1000
            self.lag_ms.append(self._asked(_LAG, int(since_ms)))

    def _cpu_seconds(self) -> tuple[float, float]:
        pids = [pid for (pid,) in self.session.execute(_PIDS)]
        return self.server.cpu_seconds(), sum(map(cpu_seconds, pids))

    def _asked(self, question: str, *values: int) -> float:
        ((found,),) = self.session.execute(question.encode(), values)
        return float(found)


def measure(run: Run, writers: int = WRITERS, streams: int = STREAMS) -> list[Figure]:
    """Have all writers note once a second for as long as the run says."""
    with postgres(run) as server:
        if server is None:
            return []
        seconds = run.minutes * 60
        run.say(f"{writers:,} writers note once a second, for {run.minutes:g} minutes")
        return _soaked(server, Steady(writers, streams, 2 * streams), writers, seconds)


def _soaked(server: Postgres, steady: Steady, per_second: int, seconds: float) -> list[Figure]:
    database = server.make_database()
    with controller(database) as taking, server.session(database) as session:
        for stream in steady.streams:
            create_stream(taking, stream, SETTINGS)
        sampler = Sampler(taking, session, seconds / SAMPLES)
        with closing(Pace(taking.port, 2 * len(steady.streams), per_second)) as pace:
            answered = _watched(sampler, pace, steady, seconds)
        steady.check(answered, database)
    return _figures(sampler, answered, per_second)


def _watched(sampler: Sampler, pace: Pace, steady: Steady, seconds: float) -> Answered:
    stop = Event()
    thread = Thread(target=sampler.watch, args=(stop,))
    thread.start()
    try:
        return pace.drive(seconds, steady.note)
    finally:
        stop.set()
        thread.join()


def _figures(sampler: Sampler, answered: Answered, per_second: int) -> list[Figure]:
    settled = slice(int(SAMPLES * SETTLED), None)
    latencies = [answered.percentile_ms(percent) for percent in (50, 99)]
    return [
        _figure("notes taken", "/s", [answered.per_second], f"{per_second:,} a second were due"),
        _figure("answered after they were due, p50", "ms", latencies[:1]),
        _figure("answered after they were due, p99", "ms", latencies[1:]),
        _figure("CPU of the controller", "cores", sampler.cores[settled]),
        _figure("CPU of the database", "cores", sampler.database_cores[settled]),
        _figure("lag of a mark when it is written, p99", "ms", sampler.lag_ms[settled]),
        *_grown("memory of the controller", sampler.memory_mib[settled]),
        *_grown("size of the database", sampler.database_mib[settled]),
    ]


def _figure(name: str, unit: str, values: list[float], remark: str = "") -> Figure:
    return Figure(f"soak: {name}", unit, Samples(tuple(values)), remark=remark)


def _grown(what: str, values: list[float]) -> list[Figure]:
    """Return all samples, and the last quarter of them beside the first."""
    quarter = -(-len(values) // 4)
    first, last = Samples(tuple(values[:quarter])), Samples(tuple(values[-quarter:]))
    return [
        _figure(what, "MiB", values),
        Figure(f"soak: {what}, at the end", "MiB", last, first, "at first", GROWTH),
    ]
