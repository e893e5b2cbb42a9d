import logging
import shutil
from pathlib import Path

import pytest
import structlog

from tests.support.controllers import GivenTime, Watched, WatchedMemory, WatchedSqlite


@pytest.fixture(autouse=True, scope="session")
def quiet_log() -> None:
    """Keep the controller's log out of the tests' output."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


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
