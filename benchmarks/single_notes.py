"""Durable single notes over HTTP at 64 connections, against a bare ASGI server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from benchmarks.load import LoadConnection, LoadResult, drive, put
from benchmarks.processes import Server, bare_server, controller
from benchmarks.stored import sqlite_url
from benchmarks.writers import Writers

if TYPE_CHECKING:
    from benchmarks.processes import Server


BARE = "bare uvicorn app, 204"


@dataclass(slots=True)
class Taken:
    """The samples of one server."""

    rates: list[float] = field(default_factory=list)
    p50s: list[float] = field(default_factory=list)
    p99s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def load(self, server: Server, scripts: list[list[bytes]]) -> LoadResult:
        """Send the scripts to the server, and keep the samples."""
        before = server.cpu_seconds()
        load_result = drive(server.port, scripts)
        self.cpu_us.append((server.cpu_seconds() - before) / len(load_result.latencies) * 1e6)
        self.rates.append(load_result.per_second)
        self.p50s.append(load_result.percentile_ms(50))
        self.p99s.append(load_result.percentile_ms(99))
        return load_result


@dataclass(frozen=True, slots=True)
class Aim:
    """A load and its targets: the ratio of rates, a p99 in ms, and the ratio of CPU times."""

    connections: int
    rate: float
    slowest_ms: float | None = None
    where: str = ""
    busy: float = 5

    @property
    def name(self) -> str:
        place_suffix = f", {self.where}" if self.where else ""
        return f"durable single notes, {self.connections} connections{place_suffix}"


def figures(aim: Aim, ours: Taken, bare: Taken, remark: str) -> list[Figure]:
    """Return the rate, the latencies and the CPU time of a load, with the bare server's."""
    rate = Target("ratio", "at least", aim.rate)
    slowest = aim.slowest_ms and Target("value", "at most", aim.slowest_ms)
    busy = Target("ratio", "at most", aim.busy)
    return [
        _figure(aim.name, "/s", ours.rates, bare.rates, rate, remark),
        _figure("their latency, p99", "ms", ours.p99s, bare.p99s, slowest or None),
        _figure("their latency, p50", "ms", ours.p50s, bare.p50s),
        _figure("their CPU time on the server", "µs", ours.cpu_us, bare.cpu_us, busy),
    ]


def _figure(  # noqa: PLR0913, PLR0917 - one parameter for each column
    name: str,
    unit: str,
    ours: list[float],
    bare: list[float],
    target: Target | None = None,
    remark: str = "",
) -> Figure:
    return Figure(name, unit, Samples(tuple(ours)), Samples(tuple(bare)), BARE, target, remark)


AIM = Aim(connections=64, rate=0.22, slowest_ms=50, busy=6.5)
WRITERS = 10_000


def measure(run: Run, writers: int = WRITERS, requests: int = 640) -> list[Figure]:
    note_writers = Writers("single", writers)
    database = sqlite_url(run.directory / "single.db")
    ours = Taken()
    bare = Taken()
    with bare_server() as floor, controller(database) as server:
        create_stream(server, note_writers.stream)
        scripts = note_writers.scripts(AIM.connections, requests, 1)
        note_writers.check(drive(server.port, scripts), database)
        for repeat in range(run.repeats(full=9, quick=3)):
            run.say(f"single notes, repeat {repeat + 1}")
            scripts = note_writers.scripts(AIM.connections, requests, 1)
            bare.load(floor, scripts)
            note_writers.check(ours.load(server, scripts), database)
    return figures(AIM, ours, bare, "SQLite")


def create_stream(server: Server, stream: str, settings: bytes = b"{}") -> None:
    """Create the stream, or raise `WrongResult`."""
    connection = LoadConnection(server.port)
    answer = connection.ask(put(f"/v1/streams/{stream}", settings))
    connection.close()
    if not answer.startswith(b"HTTP/1.1 201 "):
        raise WrongResult(answer.decode())
