"""Opens the store of a database URL, and lets only one process serve a database file."""

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


def open_store(url: str) -> Store:
    """Return the store of ``sqlite:///path`` or ``postgresql://…``.

    Raises `WrongSchema` if the database must be migrated first, `StoreUnavailable` if it does not
    answer, and `Rejected` if the URL is invalid or its database is not supported.
    """
    check(url)
    if is_postgres(url):
        return PostgresStore(url)
    store = SqliteStore(url)
    store.check()
    return store


def open_tokens(url: str) -> Tokens:
    check(url)
    if is_postgres(url):
        shared = create_postgres_engine(url)
        return Tokens(shared, shared)
    engine = create_sqlite_engine(parse_file(url))
    return Tokens(engine, create_writing_engine(engine))


@contextmanager
def exclusive_lock(url: str) -> Iterator[None]:
    """Prevent all other controllers from serving a database file; raises `StoreUnavailable`.

    Two controllers could not append conflicting marks, because appends compare and set. But each
    checks notes against its own memory, so one could overwrite a note that the other acknowledged.

    The lock is SQLite's lock on an empty file next to the database.
    """
    if is_postgres(url):
        yield
        return
    file = parse_file(url).resolve()
    lock_file = file.with_name(f"{file.name}.serving")
    try:
        connection = sqlite3.connect(lock_file, timeout=LOCK_WAIT_S, isolation_level=None)
        connection.execute("PRAGMA journal_mode = MEMORY")  # prevents a second file
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise StoreUnavailable(f"{file} is served by another controller") from error
        raise StoreUnavailable(f"{lock_file}: {error}") from error
    with closing(connection):
        yield
