"""The delay from a note until a waiting reader has the mark, with 1,000 members.

The members note in turn, so every note advances the watermark by one step. The floor is one synced
SQLite commit and two round trips to a bare server.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from benchmarks.load import LoadConnection, get, percentile, post
from benchmarks.processes import bare_server, controller
from benchmarks.single_notes import create_stream
from benchmarks.stored import sqlite_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MEMBERS = 1000
STREAM = "visible"
PARKED_S = 0.002
MEDIAN = Target("ratio", "at most", 2.0)
SLOWEST = Target("value", "at most", 50)


@dataclass(slots=True)
class Turns:
    """The members of the stream, which note in turn; each note makes a mark."""

    members: int
    stream: str = STREAM
    notes: int = 0

    def join(self) -> bytes:
        """Return the notes of all members, at successive times."""
        return self._request(range(self.members))

    def next(self) -> bytes:
        return self._request(range(self.notes, self.notes + 1))

    def _request(self, numbers: range) -> bytes:
        self.notes = numbers.stop
        notes = [
            {"writer": f"writer-{n % self.members}", "time": n, "position": {str(n % 16): n}}
            for n in numbers
        ]
        return post(f"/v1/streams/{self.stream}/notes", json.dumps({"notes": notes}).encode())


@dataclass(slots=True)
class Reader:
    """A reader that waits for the next mark on its connection."""

    connection: LoadConnection
    stream: str = STREAM
    seq: int = 0

    def wait(self) -> None:
        path = f"/v1/streams/{self.stream}/marks?after={self.seq}&wait_ms=30000"
        self.connection.socket.sendall(get(path))

    def take(self) -> None:
        """Take the answer, or raise `WrongResult` unless it is just the next mark."""
        body = self.connection.wait().partition(b"\r\n\r\n")[2]
        seqs = [mark["seq"] for mark in json.loads(body)["marks"]]
        if seqs != [self.seq + 1]:
            raise WrongResult(f"after mark {self.seq} came {seqs}")
        self.seq += 1


@dataclass(slots=True)
class Taken:
    """Return our latencies in ms and the floor's, measured in turn."""

    ours: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)


def measure(run: Run, members: int = MEMBERS) -> list[Figure]:
    """Measure many times how long a mark takes to the reader, then the floor."""
    repeats = run.repeats(full=5, quick=3)
    samples = run.repeats(full=400, quick=40)
    database = sqlite_url(run.directory / "visible.db")
    with (
        bare_server() as floor,
        controller(database) as server,
        round_trips_and_commit(floor.port, run.directory / "commits.db") as least_work,
    ):
        create_stream(server, STREAM, b'{"mark_interval_ms": 0}')
        samples_taken = []
        with (
            closing(LoadConnection(server.port)) as writer,
            closing(LoadConnection(server.port)) as waits,
        ):
            turns = Turns(members)
            reader = Reader(waits)
            writer.ask(turns.join())
            reader.wait()
            reader.take()
            for repeat in range(repeats):
                run.say(f"note to visible mark, repeat {repeat + 1}")
                measure_one = partial(note_and_see, turns, writer, reader)
                samples_taken.append(_sample(samples, measure_one, least_work))
    return [_figure("p50", 50, samples_taken, MEDIAN), _figure("p99", 99, samples_taken, SLOWEST)]


def note_and_see(turns: Turns, writer: LoadConnection, reader: Reader) -> float:
    """Return the ms from a note's first byte until the reader has its mark."""
    reader.wait()
    time.sleep(PARKED_S)
    note = turns.next()
    begun_s = time.perf_counter()
    writer.socket.sendall(note)
    reader.take()
    took = time.perf_counter() - begun_s
    if b'"accepted"' not in (answer := writer.wait()):
        raise WrongResult(answer.decode())
    return took * 1e3


@contextmanager
def round_trips_and_commit(port: int, file: Path) -> Iterator[Callable[[], float]]:
    """Yield a function that takes a sample of the floor, in ms."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE note (time INTEGER)")
        connection = LoadConnection(port)

        def sample() -> float:
            time.sleep(PARKED_S)
            begun_s = time.perf_counter()
            connection.ask(get("/"))
            database.execute("INSERT INTO note VALUES (1)")
            connection.ask(get("/"))
            return (time.perf_counter() - begun_s) * 1e3

        yield sample
        connection.close()


def _sample(samples: int, ours: Callable[[], float], floor: Callable[[], float]) -> Taken:
    new_sample = Taken()
    for _ in range(samples):
        new_sample.ours.append(ours())
        new_sample.floor.append(floor())
    return new_sample


def _figure(name: str, percent: int, samples_taken: list[Taken], target: Target) -> Figure:
    return Figure(
        f"note to mark at a waiting reader, {name}",
        "ms",
        Samples(tuple(percentile(sample.ours, percent) for sample in samples_taken)),
        Samples(tuple(percentile(sample.floor, percent) for sample in samples_taken)),
        "a synced commit and two round trips",
        target,
        "1,000 members, each note a mark",
    )
