"""Which store a database URL names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.store.memory import MemoryStore
from controller.store.migrate import check
from controller.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from controller.store.port import Store

MEMORY = "memory:"


def open_store(url: str) -> Store:
    """Return the store that ``sqlite:///path`` or ``memory:`` names.

    Raises `WrongSchema` where the database is to be migrated first, `StoreUnavailable` where it
    does not answer and `Rejected` where the URL names no database of ours.

    >>> open_store("memory:").streams()
    []
    """
    if url == MEMORY:
        return MemoryStore()
    check(url)
    return SqliteStore(url)
