from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controller.store.memory import MemoryStore
from controller.store.migrate import migrate
from controller.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controller.store.port import Store

    MakeStore = Callable[[], Store]


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database, to be copied."""
    file = tmp_path_factory.mktemp("migrated") / "empty.db"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture
def database(migrated: Path, tmp_path: Path) -> Path:
    """A migrated database of the test's own."""
    return Path(shutil.copy(migrated, tmp_path / "noted-time.db"))


@pytest.fixture
def make_sqlite(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeStore:
    """Makes a new SQLite store at each call, for tests of many examples."""

    def make() -> Store:
        directory = tmp_path_factory.mktemp("sqlite")
        return SqliteStore(shutil.copy(migrated, directory / "noted-time.db"))

    return make


@pytest.fixture(params=["sqlite", "memory"])
def make_store(request: pytest.FixtureRequest, make_sqlite: MakeStore) -> MakeStore:
    """Makes a new store of each kind at each call."""
    return make_sqlite if request.param == "sqlite" else MemoryStore


@pytest.fixture
def store(make_store: MakeStore) -> Iterator[Store]:
    """A new store of each kind."""
    made = make_store()
    yield made
    made.close()
