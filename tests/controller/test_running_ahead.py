from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from controller.service.committer import AHEAD, PORTION
from controller.store.port import StoreUnavailable
from noted_time import Accepted, Note
from tests.support.controllers import marks_of, serving, tell, until

if TYPE_CHECKING:
    from controller.service.controller import Controller
    from tests.support.controllers import Watched

pytestmark = pytest.mark.anyio


async def all_of(controller: Controller, time: int) -> list[object]:
    """Have so many writers note a time at once that they do not wait for the commit before."""
    return list(await controller.note("s", [Note(f"w{i}", time, {0: time}) for i in range(AHEAD)]))


def known(controller: Controller) -> int:
    """Return how many writers are in memory, none while the streams are read anew."""
    if not controller.has("s"):
        return 0
    return len(controller.writers("s", start=0, limit=2 * AHEAD))


async def test_many_notes_are_run_while_the_batch_before_is_written(store: Watched) -> None:
    """They are in memory before the first commit ends, and durable after a second one."""
    async with serving(store) as controller:
        store.watch.open.clear()
        first = asyncio.create_task(tell(controller, Note("first", 1)))
        await until(lambda: store.watch.attempts == 2)
        many = asyncio.create_task(all_of(controller, 5))
        await until(lambda: known(controller) == AHEAD + 1)
        early = first.done(), many.done(), len(store.watch.batches)
        store.watch.open.set()
        await first

        assert await many == [Accepted(1)] * AHEAD
        assert early == (False, False, 1)
        assert [batch.records for batch in store.watch.batches[1:]] == [1, AHEAD]


async def test_few_notes_wait_for_the_end_of_the_batch_before(store: Watched) -> None:
    """To run them early would gain nothing."""
    async with serving(store) as controller:
        store.watch.open.clear()
        first = asyncio.create_task(tell(controller, Note("first", 1)))
        await until(lambda: store.watch.attempts == 2)
        second = asyncio.create_task(tell(controller, Note("second", 1)))
        await asyncio.sleep(0.05)
        early = known(controller)
        store.watch.open.set()
        await asyncio.gather(first, second)

        assert (early, known(controller)) == (1, 2)


async def test_a_commit_does_not_wait_for_more_than_a_portion(store: Watched) -> None:
    """Of what waits the first thousand notes are written while the others are run."""
    async with serving(store) as controller:
        store.watch.open.clear()
        requests = [[Note(f"w{i}", time) for i in range(PORTION)] for time in (1, 2, 3)]
        taken = [asyncio.create_task(controller.note("s", notes)) for notes in requests]
        await until(lambda: store.watch.attempts == 2)
        store.watch.open.set()
        await asyncio.gather(*taken)

        assert [batch.records for batch in store.watch.batches[1:]] == [PORTION, PORTION]


async def test_what_was_run_ahead_falls_with_the_batch_before_it(store: Watched) -> None:
    """All callers are told, and memory has only what is stored; the same notes are taken again."""
    async with serving(store) as controller:
        await tell(controller, Note("kept", 3))
        store.watch.open.clear()
        store.watch.failures.append(StoreUnavailable("the disk is full"))
        first = asyncio.create_task(tell(controller, Note("first", 4)))
        await until(lambda: store.watch.attempts == 3)
        many = asyncio.create_task(all_of(controller, 5))
        await until(lambda: known(controller) == AHEAD + 2)
        store.watch.open.set()
        told = await asyncio.gather(first, many, return_exceptions=True)
        await until(lambda: known(controller) == 1)
        again = await all_of(controller, 5)

        assert [type(each) for each in told] == [StoreUnavailable, StoreUnavailable]
        assert (len(again), {type(each) for each in again}) == (AHEAD, {Accepted})
        assert [mark.lower for mark in marks_of(controller)] == [3]


async def test_a_stream_that_is_removed_ends_the_batch_that_runs_ahead(store: Watched) -> None:
    """What comes for its name after it meets the stream made again, in a later transaction."""
    async with serving(store) as controller:
        store.watch.open.clear()
        first = asyncio.create_task(tell(controller, Note("first", 1)))
        await until(lambda: store.watch.attempts == 2)
        many = asyncio.create_task(all_of(controller, 5))
        dropped = asyncio.create_task(controller.drop_stream("s"))
        made = asyncio.create_task(controller.put_stream("s", {}))
        await asyncio.sleep(0.05)
        store.watch.open.set()
        await asyncio.gather(first, many, dropped, made)

        assert (known(controller), len(store.watch.batches)) == (0, 4)
