import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.service.controller import Controller
from tests.support.controllers import GivenTime, Watched, WatchedMemory, WatchedSqlite
from tests.support.http import Caller, serve_app


@pytest.fixture
def time() -> GivenTime:
    return GivenTime()


@pytest.fixture
def memory() -> WatchedMemory:
    """A watched store in memory, for facts that no database decides."""
    return WatchedMemory()


@pytest.fixture
def sqlite(database_template: Path, tmp_path: Path) -> WatchedSqlite:
    return WatchedSqlite(str(shutil.copy(database_template, tmp_path / "noted-time.db")))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Watched:
    store: Watched = request.getfixturevalue(request.param)
    return store


@pytest.fixture
async def call(memory: WatchedMemory, time: GivenTime) -> AsyncIterator[Caller]:
    """The real app, with a stream `s` that marks every advance."""
    async with serve_app(Controller(memory, time.clocks())) as caller:
        await caller.put("/v1/streams/s", {"mark_interval_ms": 0})
        yield caller
