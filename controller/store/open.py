"""Which store a database URL names, and how one process at a time serves a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from controller.store.migrate import check
from controller.store.port import Store, StoreUnavailable
from controller.store.postgres import PostgresStore, create_postgres_engine, is_postgres
from controller.store.sqlite import (
    SqliteStore,
    create_sqlite_engine,
    create_writing_engine,
    parse_file,
)
from controller.store.token_table import Tokens

LOCK_WAIT_S = 3.0
"""How long a controller waits for one that is about to stop."""


def open_store(url: str) -> Store:
    """Return the store that ``sqlite:///path`` or ``postgresql://…`` names.

    Raises `WrongSchema` if the database is to be migrated first, `StoreUnavailable` if it
    does not answer and `Rejected` if the URL is not that of a database that is supported.
    """
    check(url)
    if is_postgres(url):
        return PostgresStore(url)
    store = SqliteStore(url)
    store.check()
    return store


def open_tokens(url: str) -> Tokens:
    """Return the tokens of that database, also while a controller serves it; raises as above."""
    check(url)
    if is_postgres(url):
        shared = create_postgres_engine(url)
        return Tokens(shared, shared)
    engine = create_sqlite_engine(parse_file(url))
    return Tokens(engine, create_writing_engine(engine))


@contextmanager
def exclusive_lock(url: str) -> Iterator[None]:
    """Keep every other controller from serving the database in a file meanwhile.

    Two would not make two chains of marks, which the compare-and-set forbids; but each judges notes
    by its own memory, so one could overwrite a note that the other has acknowledged.

    The lock is SQLite's own, on an empty file beside the database: the operating system releases it
    with the process, however that ends. Raises `StoreUnavailable` if another process holds it.
    Controllers on PostgreSQL share the work by leases instead.
    """
    if is_postgres(url):
        yield
        return
    file = parse_file(url).resolve()
    beside = file.with_name(f"{file.name}.serving")
    try:
        connection = sqlite3.connect(beside, timeout=LOCK_WAIT_S, isolation_level=None)
        connection.execute("PRAGMA journal_mode = MEMORY")  # or else it leaves a second file
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise StoreUnavailable(f"{file} is served by another controller") from error
        raise StoreUnavailable(f"{beside}: {error}") from error
    with closing(connection):
        yield
