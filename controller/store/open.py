"""Opens the store of a database URL, and locks a database file for one process."""

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

    Raises `WrongSchema` before a migration, `StoreUnavailable`, and `Rejected` for another URL.
    """
    check(url)
    return open_checked_store(url)


def open_checked_store(url: str) -> Store:
    """Return the store of a database whose tables were checked before, as by `open_tokens`."""
    store = PostgresStore(url) if is_postgres(url) else SqliteStore(url)
    try:
        store.check()
    except BaseException:
        store.close()
        raise
    return store


def open_tokens(url: str) -> Tokens:
    check(url)
    if is_postgres(url):
        shared_engine = create_postgres_engine(url)
        return Tokens(shared_engine, shared_engine)
    engine = create_sqlite_engine(parse_file(url))
    return Tokens(engine, create_writing_engine(engine))


@contextmanager
def exclusive_lock(url: str) -> Iterator[None]:
    """Keep all other controllers from a database file, or raise `StoreUnavailable`.

    Each controller checks notes against its own memory, so one could overwrite a note that another
    acknowledged. The lock is SQLite's on an empty file next to the database.
    """
    if is_postgres(url):
        yield
        return
    file = parse_file(url).resolve()
    lock_file = file.with_name(f"{file.name}.serving")
    try:
        connection = sqlite3.connect(lock_file, timeout=LOCK_WAIT_S, isolation_level=None)
        connection.execute("PRAGMA journal_mode = MEMORY")  # no second file
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            remedy = "stop it, or choose another --database"
            raise StoreUnavailable(f"{file} is served by another controller; {remedy}") from error
        raise StoreUnavailable(f"{lock_file}: {error}") from error
    with closing(connection):
        yield
