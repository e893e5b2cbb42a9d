"""How one process at a time comes to serve a database in a file."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from controller.store.port import StoreUnavailable
from controller.store.postgres import is_postgres
from controller.store.sqlite import file_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 3.0
"""How long a controller waits for one that is about to stop."""


@contextmanager
def alone(url: str) -> Iterator[None]:
    """Keep every other controller away from the database at `url` meanwhile.

    Two would not make two chains of marks, which the compare-and-set forbids; but each judges notes
    by its own memory, so one could overwrite a note that the other has acknowledged.

    The lock is SQLite's own, on an empty file beside the database: the operating system lets it go
    with the process, however that ends. Raises `StoreUnavailable` where another holds it.
    PostgreSQL has its own way, by which several share the work: see `controller.store.leases`.
    """
    if is_postgres(url):
        yield
        return
    file = file_of(url).resolve()
    beside = file.with_name(f"{file.name}.serving")
    try:
        connection = sqlite3.connect(beside, timeout=PATIENCE_S, isolation_level=None)
        connection.execute("PRAGMA journal_mode = MEMORY")  # or else it leaves a second file
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise StoreUnavailable(f"{file} is served by another controller") from error
        raise StoreUnavailable(f"{beside}: {error}") from error
    with closing(connection):
        yield
