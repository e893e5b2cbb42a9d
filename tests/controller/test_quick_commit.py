from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

from noted_time import Note
from tests.support.controllers import serving, tell
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from controller.service.controller import Controller
    from controller.store.port import Batch

pytestmark = pytest.mark.anyio

MANY = 50


class TimedStore(MemoryStore):
    """A store in memory whose commits take as long as told, and which knows where they ran."""

    def __init__(self) -> None:
        super().__init__()
        self.takes_s = 0.0
        self.in_the_loop: list[bool] = []

    def commit(self, batch: Batch) -> None:
        """Commit, on the thread of the test's loop or on another."""
        time.sleep(self.takes_s)
        self.in_the_loop.append(threading.current_thread() is threading.main_thread())
        super().commit(batch)


async def tell_many(controller: Controller, count: int = MANY) -> None:
    """Have so many writers note at once."""
    await asyncio.gather(*(tell(controller, Note(f"w{i}")) for i in range(count)))


async def test_many_requests_on_a_quick_disk_are_committed_in_the_loop() -> None:
    """The stream's creation was quick, so the fifty notes after it need no other thread."""
    store = TimedStore()
    async with serving(store) as controller:
        await tell_many(controller)

    assert store.in_the_loop[:2] == [False, True]


async def test_after_a_slow_commit_the_loop_waits_for_no_other() -> None:
    """A disk that was slow once is given its own thread until it is quick again."""
    store = TimedStore()
    async with serving(store) as controller:
        store.takes_s = 0.02
        await tell_many(controller)
        await tell_many(controller)
        store.takes_s = 0.0
        await tell_many(controller)
        await tell_many(controller)

    assert store.in_the_loop[:5] == [False, True, False, False, True]


@pytest.mark.parametrize("count", [1, 300])
async def test_few_notes_and_large_batches_are_committed_on_a_thread(count: int) -> None:
    """An idle controller has time, and a large batch would hold everybody up."""
    store = TimedStore()
    async with serving(store) as controller:
        await tell_many(controller, count)

    assert store.in_the_loop[:2] == [False, False]


async def test_a_database_that_is_shared_is_never_waited_for_in_the_loop() -> None:
    """Its network may be slow at any moment, whatever the last commit took."""
    store = TimedStore()
    store.local = False
    async with serving(store) as controller:
        await tell_many(controller)

    assert not any(store.in_the_loop)
