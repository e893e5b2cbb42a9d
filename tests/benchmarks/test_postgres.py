from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import postgres_batches, postgres_notes
from benchmarks.figures import Run, WrongResult
from benchmarks.load import drive
from benchmarks.postgres_batches import floor_rows, merge
from benchmarks.postgres_notes import plain, serving
from benchmarks.postgres_server import commit_ms, slow_down_syncs
from benchmarks.single_notes import create_stream
from benchmarks.stored import marks_stored, offsets_stored
from tests.support.postgres import Server, binaries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A PostgreSQL server of these tests."""
    directory = binaries()
    assert directory
    with Server(directory) as running:
        yield running


def test_without_group_commit_each_request_is_a_transaction(server: Server) -> None:
    """Where the controller needs fewer; either way all notes are found in PostgreSQL."""
    transactions, stored = [], []
    for program in ("controller", "benchmarks.one_by_one"):
        database = server.make_database()
        with serving(database, 64, program) as noted:
            before = writing_transactions(server)
            noted.load(noted.scripts(connections=32, requests=320))
            transactions.append(writing_transactions(server) - before)
        stored.append((offsets_stored(database, "single"), marks_stored(database, "single") > 0))

    assert [count >= 320 for count in transactions] == [False, True]
    assert stored == [(384, True)] * 2


def test_the_plain_app_writes_every_note(server: Server) -> None:
    """It answers as the controller does, and makes no marks."""
    database = server.make_database()
    with plain(database, 8) as noted:
        noted.load(noted.scripts(connections=2, requests=20))

    assert (offsets_stored(database, "single"), marks_stored(database, "single")) == (28, 0)


def test_a_note_that_is_not_stored_is_no_result(server: Server) -> None:
    """What is lost behind the controller's back stops the benchmark."""
    database = server.make_database()
    with serving(database, 8) as noted:
        scripts = noted.scripts(connections=1, requests=8)
        answered = drive(noted.server.port, scripts)
        server.execute("DELETE FROM member", database)

        with pytest.raises(WrongResult, match="16 notes posted, but 16 accepted, 0 stored"):
            noted.writers.check(answered, database)


def test_syncs_are_slowed_down(server: Server) -> None:
    """A commit takes at least as long as was asked for."""
    database = server.make_database()
    _, after = slow_down_syncs(server, database, 5.0)

    assert min(after, commit_ms(server, database)) >= 5


def test_single_notes_are_measured(tmp_path: Path) -> None:
    """Three loads of four figures, and two that compare with a transaction a request."""
    run = Run(quick=True, directory=tmp_path, say=lambda _: None)
    figures = postgres_notes.measure(run, writers=256, requests=512)

    assert [len(figure.ours.values) for figure in figures] == [2] * 14


def test_batches_are_measured(tmp_path: Path) -> None:
    """Small batches go through the whole benchmark, with their floor."""
    run = Run(quick=True, directory=tmp_path, say=lambda _: None)
    (figure,) = postgres_batches.measure(run, writers=160, notes=10)

    assert figure.floor is not None
    assert all(value > 0 for value in (*figure.ours.values, *figure.floor.values))


def test_the_floor_of_batches_merges_the_rows_that_notes_left(server: Server) -> None:
    """Under another stream, and all of them."""
    database = server.make_database()
    with serving(database, 8) as noted, server.session(database) as session:
        create_stream(noted.server, "floor")
        merge(session, floor_rows(database, "single"))
        merge(session, floor_rows(database, "single"))

    assert offsets_stored(database, "floor") == offsets_stored(database, "single") == 8


def writing_transactions(server: Server) -> int:
    """Return how many transactions have written to the server so far, this one with them."""
    ((number,),) = server.execute("SELECT pg_current_xact_id()::text::bigint")
    return int(number)
