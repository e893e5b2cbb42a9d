from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import replica_load, replica_marks, takeover
from benchmarks.figures import Run, WrongResult
from benchmarks.load import alternating, drive_all, split
from benchmarks.processes import bare_server, controller
from benchmarks.replica_servers import owner_of, replicas
from benchmarks.single_notes import create_stream
from benchmarks.stored import sqlite_url
from benchmarks.writers import Crowd, Writers
from tests.support.postgres import Server, binaries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

needs_postgres = pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A PostgreSQL server of these tests."""
    directory = binaries()
    assert directory
    with Server(directory) as running:
        yield running


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """As little as can be measured, told to nobody."""
    return Run(quick=True, directory=tmp_path, say=lambda _: None)


def test_a_load_is_split_over_servers_by_connection_or_by_request(tmp_path: Path) -> None:
    """Of three scripts two go to the first of two servers; or half of each goes to either."""
    with bare_server() as bare, controller(sqlite_url(tmp_path / "s.db")) as taking:
        ports, writers = [bare.port, taking.port], Writers("unknown", 9)
        kept = drive_all(split(ports, writers.scripts(connections=3, requests=4, notes=1)))
        changing = drive_all(alternating(ports, writers.scripts(3, 4, 1)))

    assert (dict(kept.statuses), dict(changing.statuses)) == (
        {b"204": 8, b"404": 4},
        {b"204": 6, b"404": 6},
    )


def test_the_notes_of_a_crowd_are_found_in_all_of_its_streams(tmp_path: Path) -> None:
    """A stream whose notes were not posted is missed."""
    database, crowd = sqlite_url(tmp_path / "s.db"), Crowd("c", streams=2, count=8)
    with controller(database) as taking:
        for stream in crowd.streams:
            create_stream(taking, stream)
        scripts = crowd.scripts(connections=4, requests=5)
        crowd.check(drive_all(split([taking.port], scripts)), database)
        half = drive_all(split([taking.port], crowd.scripts(connections=4, requests=5)[:2]))

        with pytest.raises(WrongResult, match="40 notes posted, but 30 accepted, 30 stored"):
            crowd.check(half, database)


@needs_postgres
def test_replicas_are_measured_when_each_has_its_share(server: Server) -> None:
    """Every stream is then had by one of them."""
    with replicas(server.make_database(), 2) as pair:
        names = [f"s-{n}" for n in range(20)]
        for name in names:
            create_stream(pair[0], name)

        assert {owner_of(pair, name) for name in names} == {0, 1}


@needs_postgres
def test_the_load_of_replicas_is_measured(run: Run, server: Server) -> None:
    """At the owners, at any one, alone, and with writers that change about."""
    figures = replica_load.measure(run, server, writers=256, requests=256, streams=4)

    assert [len(figure.ours.values) for figure in figures] == [2] * 5


@needs_postgres
def test_marks_are_measured_from_one_replica_to_the_other(run: Run, server: Server) -> None:
    """Both ways, each by its median and its slowest."""
    figures = replica_marks.measure(run, server, members=8)

    assert [len(figure.ours.values) for figure in figures] == [2] * 4


@needs_postgres
def test_time_stands_for_a_while_when_a_replica_is_lost(run: Run, server: Server) -> None:
    """And goes on however it was lost."""
    figures = takeover.measure(run, server, members=8)

    assert [len(figure.ours.values) for figure in figures] == [1] * 4
