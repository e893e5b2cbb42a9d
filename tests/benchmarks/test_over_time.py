from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from benchmarks import growth, soak
from benchmarks.figures import Run, WrongResult
from benchmarks.load import Answered, get
from benchmarks.pace import Pace
from benchmarks.processes import bare_server, controller
from benchmarks.single_notes import create_stream
from benchmarks.soak import Steady
from benchmarks.stored import sqlite_url
from tests.support.postgres import binaries

if TYPE_CHECKING:
    from pathlib import Path

needs_postgres = pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")


def test_a_pace_sends_every_request_that_is_due() -> None:
    """Each is answered once, over all connections in turn, and no sooner than it is due."""
    asked: list[int] = []

    def request(connection: int) -> bytes:
        asked.append(connection)
        return get("/")

    with bare_server() as server, closing(Pace([server.port] * 3, per_second=100)) as pace:
        answered = pace.drive(0.6, request)

    assert (dict(answered.statuses), sorted(asked)) == ({b"204": 60}, sorted([0, 1, 2] * 20))
    assert answered.seconds > 0.55


def test_steady_writers_keep_to_their_stream_and_connection() -> None:
    """Of six writers on two streams each has one of the four connections or shares it."""
    steady = Steady(writers=6, streams=2, connections=4)
    requests = [steady.note(connection) for connection in (0, 0, 0, 1, 3)]

    notes = [json.loads(request.partition(b"\r\n\r\n")[2])["notes"][0] for request in requests]
    streams = [request.split(b"/")[3] for request in requests]

    assert [(note["writer"], *note["position"].values()) for note in notes] == [
        ("writer-000000", 1),
        ("writer-000004", 1),
        ("writer-000000", 2),
        ("writer-000001", 1),
        ("writer-000003", 1),
    ]
    assert streams == [b"soak-0"] * 3 + [b"soak-1"] * 2


def test_a_soak_counts_the_notes_that_are_stored(tmp_path: Path) -> None:
    """A note that was accepted and is not there is no result."""
    database, steady = sqlite_url(tmp_path / "s.db"), Steady(writers=4, streams=2, connections=4)
    with controller(database) as taking:
        for stream in steady.streams:
            create_stream(taking, stream)
        with closing(Pace([taking.port] * 4, per_second=200)) as pace:
            answered = pace.drive(0.5, steady.note)
        steady.check(answered, database)
        claimed = Answered(accepted=answered.accepted + 1, statuses=answered.statuses)

        with pytest.raises(WrongResult, match="100 notes posted, but 101 accepted, 100 stored"):
            steady.check(claimed, database)


@needs_postgres
def test_a_soak_is_measured(tmp_path: Path) -> None:
    """At one controller and at two, with what it took and whether anything grew."""
    run = Run(quick=True, directory=tmp_path, say=lambda _: None, minutes=0.05)
    figures = soak.measure(run, writers=100, streams=10)

    assert len(figures) == 20
    assert all(figure.ours.values for figure in figures)


@needs_postgres
def test_growth_is_measured_at_every_size(tmp_path: Path) -> None:
    """Three figures each; the least size is the floor of all."""
    run = Run(quick=True, directory=tmp_path, say=lambda _: None)
    figures = growth.measure(run, sizes=((64, 4), (128, 4)), requests=256)

    assert [figure.remark for figure in figures] == [
        *["64 writers, 4 segments in each position"] * 3,
        *["128 writers, 4 segments in each position"] * 3,
    ]
