"""Durable single notes over HTTP at 64 connections, against a bare ASGI server that answers 204."""

from __future__ import annotations

from benchmarks.figures import Figure, Run, WrongResult
from benchmarks.load import Connection, drive, put
from benchmarks.processes import Server, bare_server, controller
from benchmarks.stored import sqlite_url
from benchmarks.taken import Aim, Taken, figures
from benchmarks.writers import Writers

AIM = Aim(connections=64, rate=0.22, slowest_ms=50)
WRITERS = 10_000
REMARK = "SQLite, 10,000 writers in permuted order, marks every 200 ms"


def measure(run: Run, writers: int = WRITERS, requests: int = 640) -> list[Figure]:
    """Post the same requests to the controller and the bare server in turn."""
    posted = Writers("single", writers)
    database = sqlite_url(run.directory / "single.db")
    ours, bare = Taken(), Taken()
    with bare_server() as floor, controller(database) as server:
        create_stream(server, posted.stream)
        scripts = posted.scripts(AIM.connections, requests, 1)
        posted.check(drive(server.port, scripts), database)
        for repeat in range(run.repeats(full=9, quick=3)):
            run.say(f"single notes, repeat {repeat + 1}")
            scripts = posted.scripts(AIM.connections, requests, 1)
            bare.load(floor, scripts)
            posted.check(ours.load(server, scripts), database)
    return figures(AIM, ours, bare, REMARK)


def create_stream(server: Server, stream: str, settings: bytes = b"{}") -> None:
    """Make the stream; raises `WrongResult` where the controller does not."""
    connection = Connection(server.port)
    answer = connection.ask(put(f"/v1/streams/{stream}", settings))
    connection.close()
    if not answer.startswith(b"HTTP/1.1 201 "):
        raise WrongResult(answer.decode())
