"""Concurrent transactions on PostgreSQL, and a judge of the times noted for Debezium's topics."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, Self

import psycopg

from tools.trials.broker import Record
from tools.trials.postgres import Server

TABLES = ("orders", "payments")
SCHEMA = """
CREATE TABLE {table} (id bigserial PRIMARY KEY, created_at timestamptz DEFAULT now(), pad text)
"""
INSERT = """
INSERT INTO {table} (pad) SELECT repeat('x', 40) FROM generate_series(1, %s)
"""
COMMIT_TIMES = """
SELECT id, pg_xact_commit_timestamp(xmin), created_at FROM {table}
"""
LARGE_TRANSACTION_ROWS = 300
LONG_TRANSACTION_S = 4.0


def create_tables(server: Server, url: str) -> None:
    """Create the tables in a database."""
    for table in TABLES:
        server.execute(SCHEMA.format(table=table), url)


class Transactions:
    """Threads that commit until the end of the block: short, long, large and aborted ones."""

    def __init__(self, url: str, *, threads: int = 4) -> None:
        self._url = url
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._commit_until_over, args=(seed,), daemon=True)
            for seed in range(threads)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)

    def _commit_until_over(self, seed: int) -> None:
        chance = random.Random(seed)
        with psycopg.connect(self._url, application_name=f"shop {seed}") as session:
            while not self._is_over.is_set():
                self._run_transaction(session, chance)
                self._is_over.wait(chance.expovariate(15))

    def _run_transaction(
        self, session: psycopg.Connection[tuple[object, ...]], chance: random.Random
    ) -> None:
        kind = chance.random()
        rows = LARGE_TRANSACTION_ROWS if kind > 0.98 else chance.randrange(1, 4)
        for _ in range(chance.choice([1, 1, 2])):
            statement = INSERT.format(table=chance.choice(TABLES))
            session.execute(statement.encode(), (rows,))
            if kind < 0.03:  # a long one
                self._is_over.wait(chance.uniform(0.5, LONG_TRANSACTION_S))
        if 0.9 < kind < 0.93:
            session.rollback()
        else:
            session.commit()


class Change(NamedTuple):
    """A committed row: its commit and its transaction's start, in µs since 1970."""

    id: int
    commit_us: int
    start_us: int


class Place(NamedTuple):
    """Where a row is in a topic."""

    partition: int
    offset: int


class NotedTime(NamedTuple):
    """A time in Unix ms, and the ends of the topic; all earlier changes are below them."""

    time: int
    ends: Mapping[int, int]


def list_changes(server: Server, url: str, table: str) -> list[Change]:
    """Return all committed rows of a table, with the times that PostgreSQL kept."""
    changes: list[Change] = []
    for number, commit, start in server.execute(COMMIT_TIMES.format(table=table), url):
        changes.append(Change(number, _read_us(commit), _read_us(start)))
    return changes


def _read_us(time: object) -> int:
    assert isinstance(time, datetime)
    return round(time.timestamp() * 1_000_000)


def find_places(records: Iterable[Record]) -> dict[int, Place]:
    """Return where each row was first written in a topic with these records."""
    places: dict[int, Place] = {}
    for record in records:
        if record.value is None:
            continue
        number = json.loads(record.value)["after"]["id"]
        place = places.get(number)
        if place is None or record.offset < place.offset:
            places[number] = Place(record.partition, record.offset)
    return places


def list_missing(
    noted_time: NotedTime, times_us: Mapping[int, int], places: Mapping[int, Place]
) -> list[int]:
    """Return the times of the rows that are missing below a noted time, of all `times_us`."""
    missing_times: list[int] = []
    for number, time_us in times_us.items():
        if time_us >= noted_time.time * 1000:
            continue
        place = places.get(number)
        if place is None or place.offset >= noted_time.ends.get(place.partition, 0):
            missing_times.append(time_us)
    return missing_times


def list_wrong(
    noted_times: Iterable[NotedTime], times_us: Mapping[int, int], places: Mapping[int, Place]
) -> list[NotedTime]:
    """Return the noted times with a missing row."""
    wrong: list[NotedTime] = []
    for noted_time in noted_times:
        if list_missing(noted_time, times_us, places):
            wrong.append(noted_time)
    return wrong
