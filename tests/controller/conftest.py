import shutil
from pathlib import Path

import pytest

from tests.support.controllers import GivenTime, Watched, WatchedMemory, WatchedSqlite


@pytest.fixture
def time() -> GivenTime:
    """A time that stands until a test moves it."""
    return GivenTime()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, migrated: Path, tmp_path: Path) -> Watched:
    """A watched store of either kind."""
    if request.param == "memory":
        return WatchedMemory()
    return WatchedSqlite(str(shutil.copy(migrated, tmp_path / "noted-time.db")))


@pytest.fixture
def memory() -> WatchedMemory:
    """A watched store in memory, for what no database decides."""
    return WatchedMemory()
