"""Which store a database URL names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.store.migrate import check
from controller.store.postgres import PostgresStore, is_postgres, postgres_engine
from controller.store.sqlite import SqliteStore, file_of, sqlite_engine, writing
from controller.store.tokens import SqlTokens

if TYPE_CHECKING:
    from controller.store.port import Store
    from controller.store.tokens import Tokens


def open_store(url: str) -> Store:
    """Return the store that ``sqlite:///path`` or ``postgresql://…`` names.

    Raises `WrongSchema` where the database is to be migrated first, `StoreUnavailable` where it
    does not answer and `Rejected` where the URL names no database of ours.
    """
    check(url)
    return PostgresStore(url) if is_postgres(url) else SqliteStore(url)


def open_tokens(url: str) -> Tokens:
    """Return the tokens of that database, also while a controller serves it; raises as above."""
    check(url)
    if is_postgres(url):
        shared = postgres_engine(url)
        return SqlTokens(shared, shared)
    engine = sqlite_engine(file_of(url))
    return SqlTokens(engine, writing(engine))
