"""Batches of 1000 durable notes, against a plain executemany upsert into the same SQLite file."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples, Target
from benchmarks.load import drive
from benchmarks.processes import controller
from benchmarks.single_notes import create_stream
from benchmarks.stored import rows_as_of, sqlite_url
from benchmarks.writers import Writers
from controller.store.records import StoredMember
from controller.store.schema import RECORD_TABLES

if TYPE_CHECKING:
    from pathlib import Path

STREAM = "batches"
FLOOR = "floor"
CONNECTIONS = 8
WRITERS = 100_000
NOTES = 1000
TRANSACTIONS = (1000, 5000, 20_000)
RATE = Target("ratio", "at least", 0.22)

MEMBER = RECORD_TABLES[StoredMember]
COLUMNS = MEMBER.columns.keys()
UPSERT = f"""
INSERT INTO {MEMBER.name} VALUES ({", ".join("?" * len(COLUMNS))}) ON CONFLICT DO UPDATE SET
{", ".join(f"{name} = excluded.{name}" for name in COLUMNS[2:])}
"""  # noqa: S608 - the names are the schema's own

Rows = list[tuple[object, ...]]


def measure(run: Run, writers: int = WRITERS, notes: int = NOTES) -> list[Figure]:
    """Post batches, and upsert their rows for another stream of the file, in turn.

    The floor has its rows ready and sorted, and takes the best of three sizes.
    """
    note_writers = Writers(STREAM, writers)
    file = run.directory / "batches.db"
    database = sqlite_url(file)
    requests = -(-writers // (CONNECTIONS * notes))
    ours: list[float] = []
    floor: list[float] = []
    with controller(database) as server:
        create_stream(server, note_writers.stream)
        create_stream(server, FLOOR)
        note_writers.check(
            drive(server.port, note_writers.scripts(CONNECTIONS, requests, notes)), database
        )
        upsert(file, floor_rows(database), TRANSACTIONS[-1])
        for repeat in range(run.repeats(full=7, quick=2)):
            run.say(f"batches of {notes} notes, repeat {repeat + 1}")
            scripts = note_writers.scripts(CONNECTIONS, requests, notes)
            load_result = drive(server.port, scripts)
            note_writers.check(load_result, database)
            ours.append(load_result.accepted / load_result.seconds)
            rows = floor_rows(database)
            floor.append(max(upsert(file, rows, size) for size in TRANSACTIONS))
    return [
        Figure(
            f"durable notes in batches of {notes}",
            "/s",
            Samples(tuple(ours)),
            Samples(tuple(floor)),
            "rows of a plain executemany upsert, best transaction size",
            RATE,
            "SQLite",
        )
    ]


def floor_rows(database: str) -> Rows:
    """Return the stored rows as another stream's, in random order."""
    rows = rows_as_of(database, STREAM, FLOOR)
    random.shuffle(rows)
    return rows


def upsert(file: Path, rows: Rows, size: int) -> float:
    """Upsert the rows, `size` a transaction, as durably as the store; return rows a second.

    Names are sorted within a transaction, the fastest order.
    """
    batches = [
        sorted(rows[begin : begin + size], key=lambda row: str(row[1]))
        for begin in range(0, len(rows), size)
    ]
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 64000")
        connection.execute("PRAGMA cache_size = -65536")
        begun_s = perf_counter()
        for batch in batches:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(UPSERT, batch)
            connection.execute("COMMIT")
        return len(rows) / (perf_counter() - begun_s)
