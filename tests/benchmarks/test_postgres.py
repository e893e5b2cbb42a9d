"""The benchmarks against PostgreSQL, as small as can be."""

from __future__ import annotations

import pytest

from benchmarks import postgres_batches, postgres_notes, takeover
from benchmarks.figures import Run, WrongResult
from benchmarks.load import drive
from benchmarks.note_batches import FLOOR
from benchmarks.postgres_batches import floor_rows, merge
from benchmarks.processes import controller
from benchmarks.single_notes import create_stream
from benchmarks.stored import offsets_stored
from benchmarks.writers import Writers
from tools.trials.postgres import Server, find_binaries

pytestmark = pytest.mark.skipif(find_binaries() is None, reason="PostgreSQL is not installed")


def test_benchmark_stops_when_a_note_is_not_stored(server: Server) -> None:
    database = server.make_database()
    writers = Writers("s", 8)
    with controller(database) as taking:
        create_stream(taking, "s")
        answers = drive(taking.port, writers.scripts(connections=1, requests=8, notes=1))
        server.execute("DELETE FROM noted_time_member", database)

        with pytest.raises(WrongResult, match="8 notes posted, but 8 accepted, 0 stored"):
            writers.check(answers, database)


def test_floor_of_batches_merges_all_rows_of_notes(server: Server) -> None:
    """They are merged as rows of another stream."""
    database = server.make_database()
    writers = Writers("s", 8)
    with controller(database) as taking, server.session(database) as session:
        create_stream(taking, "s")
        create_stream(taking, FLOOR)
        drive(taking.port, writers.first_notes())
        merge(session, floor_rows(database, "s"))
        merge(session, floor_rows(database, "s"))
        merged_counts = session.execute(
            "SELECT count(*), count(DISTINCT writer), count(DISTINCT stream_id) "
            "FROM noted_time_member"
        ).fetchone()

    assert (merged_counts, offsets_stored(database, "s")) == ((16, 8, 2), 8)


def test_single_notes_are_measured(run: Run) -> None:
    """The benchmark has four figures for each of three loads."""
    figures = postgres_notes.measure(run, writers=256, requests=512)

    assert [len(figure.ours.values) for figure in figures] == [2] * 12


def test_batches_are_measured(run: Run) -> None:
    """Small batches go through the whole benchmark, with their floor."""
    (figure,) = postgres_batches.measure(run, writers=160, notes=10)

    assert figure.floor is not None
    assert all(value > 0 for value in (*figure.ours.values, *figure.floor.values))


def test_watermark_pauses_when_a_replica_is_lost(run: Run) -> None:
    """It advances again, however the replica was lost."""
    figures = takeover.measure(run, members=8)

    assert [len(figure.ours.values) for figure in figures] == [1] * 4
