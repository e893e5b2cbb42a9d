from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.replicas.one_replica import Replica, run_replica
from tests.replicas.replica_processes import (
    find_owned_name,
    note_time,
    read_lowers,
    wait_until_shared,
)
from tests.store.conftest import make_postgres
from tests.support.processes import ServeProcess
from tools.trials.postgres import Server
from tools.trials.waiting import wait_until

__all__ = ["make_postgres"]


@pytest.fixture
def url(server: Server, reusable_database: str) -> str:
    """An empty, migrated database without other clients."""
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
    """A second replica; both have their shares."""
    with ServeProcess(tmp_path, "--database", url) as process:
        wait_until_shared(a.ready(), process.ready())
        yield process


@pytest.fixture
def name(a: ServeProcess, b: ServeProcess) -> str:
    """A stream of `a` where `w` noted 5; both replicas show its mark."""
    owned_name = find_owned_name(a)
    a.create(owned_name)
    note_time(a, owned_name, 5)
    wait_until(lambda: read_lowers(b, owned_name) == [(1, 5)])
    return owned_name


@pytest.fixture
async def this() -> AsyncIterator[Replica]:
    """A replica that asks for no tokens."""
    async with run_replica() as replica:
        yield replica
