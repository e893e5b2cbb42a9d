"""Durable single notes over HTTP at 64 connections, against a bare ASGI server that answers 204."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from benchmarks.load import Answered, Connection, drive, put
from benchmarks.processes import Server, bare_server, controller
from benchmarks.writers import Writers

CONNECTIONS = 64
WRITERS = 10_000
RATE = Target("ratio", "at least", 0.33)
SLOWEST = Target("value", "at most", 50)


@dataclass(slots=True)
class Taken:
    """The samples of one server."""

    rates: list[float] = field(default_factory=list)
    p50s: list[float] = field(default_factory=list)
    p99s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def load(self, server: Server, scripts: list[list[bytes]]) -> Answered:
        """Drive the server through the scripts and keep what that took."""
        before = server.cpu_seconds()
        answered = drive(server.port, scripts)
        self.cpu_us.append((server.cpu_seconds() - before) / len(answered.latencies) * 1e6)
        self.rates.append(answered.per_second)
        self.p50s.append(answered.percentile_ms(50))
        self.p99s.append(answered.percentile_ms(99))
        return answered


def measure(run: Run, writers: int = WRITERS, requests: int = 640) -> list[Figure]:
    """Post the same requests to the controller and the bare server in turn."""
    posted = Writers("single", writers)
    database = run.directory / "single.db"
    ours, bare = Taken(), Taken()
    with bare_server() as floor, controller(database) as server:
        create_stream(server, posted.stream)
        posted.check(drive(server.port, posted.scripts(CONNECTIONS, requests, 1)), database)
        for repeat in range(run.repeats(full=9, quick=3)):
            run.say(f"single notes, repeat {repeat + 1}")
            scripts = posted.scripts(CONNECTIONS, requests, 1)
            bare.load(floor, scripts)
            posted.check(ours.load(server, scripts), database)
    return _figures(ours, bare)


def create_stream(server: Server, stream: str, settings: bytes = b"{}") -> None:
    """Make the stream; raises `WrongResult` where the controller does not."""
    connection = Connection(server.port)
    answer = connection.ask(put(f"/v1/streams/{stream}", settings))
    connection.close()
    if not answer.startswith(b"HTTP/1.1 201 "):
        raise WrongResult(answer.decode())


def _figures(ours: Taken, bare: Taken) -> list[Figure]:
    bare_is = "bare uvicorn app, 204"
    return [
        Figure(
            "durable single notes, 64 connections",
            "/s",
            Samples(tuple(ours.rates)),
            Samples(tuple(bare.rates)),
            bare_is,
            RATE,
            "SQLite, 10,000 writers in permuted order, marks every 200 ms",
        ),
        Figure(
            "their latency, p99",
            "ms",
            Samples(tuple(ours.p99s)),
            Samples(tuple(bare.p99s)),
            bare_is,
            SLOWEST,
        ),
        Figure(
            "their latency, p50",
            "ms",
            Samples(tuple(ours.p50s)),
            Samples(tuple(bare.p50s)),
            bare_is,
        ),
        Figure(
            "their CPU time on the server, all threads",
            "µs",
            Samples(tuple(ours.cpu_us)),
            Samples(tuple(bare.cpu_us)),
            bare_is,
        ),
    ]
