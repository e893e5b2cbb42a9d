from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from demo.trials.postgres import Server
from demo.trials.waiting import wait_until
from tests.replicas.played import Played, played
from tests.replicas.served import lowers, note, shared, stream_of
from tests.replicas.served import make as make_through
from tests.store.conftest import make_postgres
from tests.support.processes import ServeProcess

__all__ = ["make_postgres"]


@pytest.fixture
def url(server: Server, reusable_database: str) -> str:
    """A migrated, empty database without other clients."""
    server.cut(reusable_database)
    server.empty(reusable_database)
    return reusable_database


@pytest.fixture
def a(tmp_path: Path, url: str) -> Iterator[ServeProcess]:
    """A replica."""
    with ServeProcess(tmp_path, "--database", url) as process:
        yield process


@pytest.fixture
def b(tmp_path: Path, url: str, a: ServeProcess) -> Iterator[ServeProcess]:
    """Another one; they have come to their shares."""
    with ServeProcess(tmp_path, "--database", url) as process:
        shared(a.ready(), process.ready())
        yield process


@pytest.fixture
def name(a: ServeProcess, b: ServeProcess) -> str:
    """A stream of `a` in which `w` noted 5, which both have shown."""
    made = stream_of(a)
    make_through(a, made)
    note(a, made, 5)
    wait_until(lambda: lowers(b, made) == [(1, 5)])
    return made


@pytest.fixture
async def this() -> AsyncIterator[Played]:
    """A replica that asks for no tokens."""
    async with played() as made:
        yield made
