"""A controller in the test's process, with a given time and a store that can fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from controller.aggregation.views.inspection import build_writer_row
from controller.aggregation.views.view import View
from controller.service.clocks import Clocks
from controller.service.controller import Controller
from controller.store.port import Store
from controller.store.records import ChangeSet
from controller.store.sqlite import SqliteStore
from noted_time.answers import WriterRow
from noted_time.values import Accepted, Mark, Note, Refused
from tools.trials.memory_store import MemoryStore
from tools.trials.waiting import PATIENCE_S

T = TypeVar("T")


@dataclass
class GivenTime:
    """The clocks of a controller, which stand still until the test moves them."""

    steady: int = 10_000
    wall: int = 1_700_000_000_000

    def clocks(self) -> Clocks:
        return Clocks(wall_ms=lambda: self.wall, steady_ms=lambda: self.steady)

    def passes(self, ms: int) -> None:
        self.steady += ms
        self.wall += ms


@dataclass
class Watch:
    """The batches of a watched store, and its planned failures.

    A commit raises the next of `failures`, or writes and raises the next of `lies`.
    """

    batches: list[ChangeSet] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    lies: list[Exception] = field(default_factory=list)
    loads: list[Exception] = field(default_factory=list)
    attempts: int = 0
    _open: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._open.set()

    @asynccontextmanager
    async def hold(self, request: Awaitable[T]) -> AsyncIterator[asyncio.Future[T]]:
        """Start a request, and let its commit wait until the end of the block."""
        before = self.attempts
        self._open.clear()
        request_task = asyncio.ensure_future(request)
        try:
            await wait_until_async(lambda: self.attempts > before)
            yield request_task
        finally:
            self._open.set()

    def commit(self, batch: ChangeSet, commit: Callable[[ChangeSet], None]) -> None:
        self.attempts += 1
        self._open.wait()
        if self.failures:
            raise self.failures.pop(0)
        commit(batch)
        self.batches.append(batch)
        if self.lies:
            raise self.lies.pop(0)


class Watching(MemoryStore if TYPE_CHECKING else object):  # type: ignore[misc]
    """The part of a watched store that its watch controls."""

    watch: Watch

    def streams(self) -> Any:  # noqa: ANN401 - as the store's
        """Fail to load if the watch demands it."""
        if self.watch.loads:
            raise self.watch.loads.pop(0)
        return super().streams()

    def commit(self, batch: ChangeSet) -> None:
        self.watch.commit(batch, super().commit)


class WatchedMemory(Watching, MemoryStore):
    """A memory store under watch, which can be opened again."""

    def __init__(self) -> None:
        super().__init__()
        self.watch = Watch()

    def reopen(self) -> WatchedMemory:
        self._closed = False
        self.watch = Watch()
        return self


class WatchedSqlite(Watching, SqliteStore):
    """An SQLite store under watch."""

    def __init__(self, path: str) -> None:
        SqliteStore.__init__(self, path)
        self.watch = Watch()
        self._path = path

    def reopen(self) -> WatchedSqlite:
        return WatchedSqlite(self._path)


Watched = WatchedMemory | WatchedSqlite


@asynccontextmanager
async def run_controller(
    store: Store, time: GivenTime | None = None, called: str | None = None
) -> AsyncIterator[Controller]:
    """Serve `store`, by default by the real clocks."""
    controller = Controller(store, time.clocks() if time else None)
    if called is not None:
        controller.register_url(called)
    await controller.start()
    try:
        yield controller
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await controller.close()


@asynccontextmanager
async def serve_stream(
    store: Store,
    time: GivenTime | None = None,
    **settings: Any,  # noqa: ANN401 - any setting
) -> AsyncIterator[Controller]:
    """Serve `store` with a stream `s` that marks every advance by default."""
    async with run_controller(store, time) as controller:
        async with asyncio.timeout(PATIENCE_S):
            await controller.put_stream("s", {"mark_interval_ms": 0, **settings})
        yield controller


def member(controller: Controller, writer: str) -> WriterRow:
    """Return a writer of the stream `s` as the API shows it."""
    return build_writer_row(View.of(controller.stream("s"), controller.now, None), writer)


async def deliver(controller: Controller, *notes: Note) -> list[Accepted | Refused]:
    async with asyncio.timeout(PATIENCE_S):
        return await controller.note("s", notes)


def list_streams(controller: Controller) -> list[str]:
    return sorted(stream.record.name for stream in controller._committer.streams)


def list_marks(controller: Controller, domain: str = "default") -> list[Mark]:
    return controller.stream("s").history(domain).after(0, 10_000)


async def wait_until_async(holds: Callable[[], bool]) -> None:
    """Wait until `holds` returns true; raise `TimeoutError` after `PATIENCE_S`."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)


def skip_served_time(controller: Controller, ms: int) -> None:
    """Move the service clock as if the controller had served that long; the wall clock stays."""
    controller._clocks.service.now += ms


def serve_for(controller: Controller, time: GivenTime, ms: int) -> None:
    """Let the controller serve that long, and read its clocks as often as usual."""
    while ms > 0:
        step = min(ms, 100)
        time.passes(step)
        controller._clocks.serve()
        ms -= step
