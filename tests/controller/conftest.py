import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.service.controller import Controller
from tests.support.controllers import GivenTime, Watched, WatchedMemory, WatchedSqlite
from tests.support.http import Caller, answering


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


@pytest.fixture
async def call(memory: WatchedMemory, time: GivenTime) -> AsyncIterator[Caller]:
    """Calls the real app, in which there is a stream `s` that marks every advance."""
    async with answering(Controller(memory, time.clocks())) as caller:
        await caller.put("/v1/streams/s", {"mark_interval_ms": 0})
        yield caller
