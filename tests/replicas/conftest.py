from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from controller.service.bell import Bell
from controller.service.following import Following
from controller.store.migrate import migrate
from controller.store.port import Batch, StreamRecord
from noted_time import StreamSettings
from tests.replicas.played import Played, played
from tests.replicas.served import lowers, note, seconds_until, shared, stream_of
from tests.replicas.served import make as make_through
from tests.store.conftest import NO_SERVER, emptied, make_postgres
from tests.support.memory_store import MemoryStore
from tests.support.postgres import Server, binaries
from tests.support.processes import ServeProcess
from tests.support.stored import mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from controller.store.port import Store
    from noted_time import ScaleEvent

__all__ = ["emptied", "make_postgres"]


class Written(MemoryStore):
    """The store of another controller, which is read under watch.

    `readings` counts those of a stream. Each stops while `open` is not set, with what it has read
    of the marks, and then fails as the next of `failures` says, while there are any.
    """

    def __init__(self) -> None:
        super().__init__()
        self.readings = 0
        self.failures: list[Exception] = []
        self.open = threading.Event()
        self.open.set()

    def scales(self, stream_id: str) -> list[ScaleEvent]:
        """Return what a reading ends with."""
        self.readings += 1
        assert self.open.wait(20)
        if self.failures:
            raise self.failures.pop(0)
        return super().scales(stream_id)


def make(store: Store, name: str = "s", stream_id: str = "id-1", **settings: Any) -> None:  # noqa: ANN401 - any setting
    """Make a stream, or change its settings."""
    record = StreamRecord(stream_id, name, StreamSettings(**settings))
    store.commit(Batch(streams=[record]))


def append(store: Store, *seqs: int, stream_id: str = "id-1") -> None:
    """Append marks to a stream."""
    store.commit(Batch(marks=[mark(seq, stream_id) for seq in seqs]))


class Hours:
    """A steady clock in seconds that stands until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def anyio_backend() -> str:
    """Run coroutines on asyncio, as the server does."""
    return "asyncio"


@pytest.fixture
def hours() -> Hours:
    """The clock by which streams are fresh."""
    return Hours()


@pytest.fixture
def written() -> Written:
    """A store with a stream `s` of marks 1 to 3."""
    store = Written()
    make(store)
    append(store, 1, 2, 3)
    return store


@pytest.fixture
def bell() -> Bell:
    """The bell at which polls wait."""
    return Bell()


@pytest.fixture
async def following(written: Written, bell: Bell, hours: Hours) -> AsyncIterator[Following]:
    """Follows what is written."""
    made = Following(written, bell, hours)
    yield made
    written.open.set()
    await made.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server of this session."""
    directory = binaries()
    if directory is None:
        pytest.skip(NO_SERVER)
    with Server(directory) as running:
        yield running
        running.stop(signal.SIGQUIT)  # nobody needs what it has not written yet


@pytest.fixture(scope="session")
def of_many_tests(server: Server) -> str:
    """A migrated database that one test after the other empties: to make one takes its time."""
    url = server.make_database()
    migrate(url)
    return url


@pytest.fixture
def url(server: Server, of_many_tests: str) -> str:
    """A migrated database with nothing in it, and nobody at it."""
    server.cut(of_many_tests)
    server.execute("TRUNCATE stream, replica, token CASCADE", of_many_tests)
    server.execute("UPDATE bucket SET service_ms = 0", of_many_tests)
    return of_many_tests


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
    seconds_until(lambda: lowers(b, made) == [(1, 5)])
    return made


@pytest.fixture
async def this() -> AsyncIterator[Played]:
    """A replica that asks for no tokens."""
    async with played() as made:
        yield made
