"""Batches of 1000 durable notes into PostgreSQL, against a raw copy-and-merge of the same rows."""

from __future__ import annotations

import random
from time import perf_counter
from typing import TYPE_CHECKING, Any

from psycopg.sql import SQL, Identifier

from benchmarks.figures import Figure, Run, Samples, Target
from benchmarks.load import drive
from benchmarks.note_batches import CONNECTIONS, FLOOR, NOTES, STREAM, WRITERS
from benchmarks.postgres_server import postgres
from benchmarks.processes import controller
from benchmarks.single_notes import create_stream
from benchmarks.stored import rows_as_of
from benchmarks.writers import Writers
from controller.store.records import StoredMember
from controller.store.schema import RECORD_TABLES

if TYPE_CHECKING:
    from psycopg import Connection

    from tools.trials.postgres import Server as Postgres

TRANSACTION = 5000
RATE = Target("ratio", "at least", 0.31)
INCOMING = (
    "CREATE TEMPORARY TABLE IF NOT EXISTS incoming (LIKE noted_time_member) ON COMMIT DELETE ROWS"
)
UPSERT = SQL(
    "INSERT INTO noted_time_member TABLE incoming ON CONFLICT (stream_id, writer) DO UPDATE SET {}"
).format(
    SQL(", ").join(
        SQL("{0} = excluded.{0}").format(Identifier(name))
        for name in RECORD_TABLES[StoredMember].columns.keys()[2:]
    )
)


def measure(run: Run, writers: int = WRITERS, notes: int = NOTES) -> list[Figure]:
    """Post batches, and merge their rows for another stream, in turn.

    The floor has its rows ready as sorted text.
    """
    with postgres(run) as server:
        if server is None:
            return []
        ours, floor = _measure_in_turn(run, server, writers, notes)
    return [
        Figure(
            f"durable notes in batches of {notes}",
            "/s",
            Samples(tuple(ours)),
            Samples(tuple(floor)),
            f"rows of a raw copy-and-merge, {TRANSACTION} a transaction",
            RATE,
            "PostgreSQL",
        )
    ]


def _measure_in_turn(
    run: Run, server: Postgres, writers: int, notes: int
) -> tuple[list[float], list[float]]:
    note_writers = Writers(STREAM, writers)
    database = server.make_database()
    requests = -(-writers // (CONNECTIONS * notes))
    ours: list[float] = []
    floor: list[float] = []
    with controller(database) as taking, server.session(database) as session:
        create_stream(taking, note_writers.stream)
        create_stream(taking, FLOOR)
        note_writers.check(
            drive(taking.port, note_writers.scripts(CONNECTIONS, requests, notes)), database
        )
        merge(session, floor_rows(database))
        for repeat in range(run.repeats(full=7, quick=2)):
            run.say(f"batches of {notes} notes into PostgreSQL, repeat {repeat + 1}")
            scripts = note_writers.scripts(CONNECTIONS, requests, notes)
            load_result = drive(taking.port, scripts)
            note_writers.check(load_result, database)
            ours.append(load_result.accepted / load_result.seconds)
            floor.append(merge(session, floor_rows(database)))
    return ours, floor


def floor_rows(database: str, stream: str = STREAM) -> list[bytes]:
    """Return the stored rows as another stream's, as text in random order."""
    rows = rows_as_of(database, stream, FLOOR)
    random.shuffle(rows)
    lines = []
    for row in rows:
        values = [_format_value(value) for value in row]
        lines.append("\t".join(values).encode() + b"\n")
    return lines


def _format_value(value: object) -> str:
    return r"\N" if value is None else str(value)


def merge(session: Connection[Any], rows: list[bytes]) -> float:
    """Copy and merge the rows as durably as the store; return rows a second."""
    blocks = [
        b"".join(sorted(rows[begin : begin + TRANSACTION]))
        for begin in range(0, len(rows), TRANSACTION)
    ]
    session.execute(INCOMING)
    begun_s = perf_counter()
    for block in blocks:
        with session.transaction():
            with session.cursor().copy("COPY incoming FROM STDIN") as copy:
                copy.write(block)
            session.execute(UPSERT)
    return len(rows) / (perf_counter() - begun_s)
