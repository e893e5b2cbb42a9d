"""Seals of streams."""

import asyncio
from itertools import pairwise

import pytest

from controller.aggregation.operations import Order
from controller.store.port import StoreUnavailable
from noted_time.rules import SLICE_SIZE, SealRequest
from noted_time.values import Accepted, Note, Refused
from noted_time.verdict import Requirement
from tests.support.controllers import (
    Watched,
    WatchedMemory,
    deliver,
    list_marks,
    serve_stream,
    wait_until_async,
)

NOTHING = SealRequest()

OPS = Order("ops", "the carrier is gone")


async def test_note_before_seal_of_its_commit_counts(store: Watched) -> None:
    async with serve_stream(store, mark_interval_ms=60_000) as controller:
        async with store.watch.hold(deliver(controller, Note("b", 1, {1: 1}))) as first:
            before = controller.note("s", [Note("a", 5, {0: 9})])
            seal = asyncio.create_task(controller.seal("s", OPS, NOTHING))
            await asyncio.sleep(0)
            after = controller.note("s", [Note("a", 7, {0: 11}), Note("new")])
        answers = [await first, await before, await after]
        _, final_seal = await seal

        assert answers[1:] == [[Accepted(1)], [Refused("sealed")] * 2]
        assert (final_seal.final_cut, store.watch.attempts) == ({0: 9, 1: 1}, 3)
        assert list_marks(controller)[-1].cut.offsets == {0: 9, 1: 1}


async def test_seal_that_is_not_durable_is_not_shown(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        await deliver(controller, Note("a", 5, {0: 9}))
        async with memory.watch.hold(controller.seal("s", OPS, NOTHING)) as seal:
            is_sealed = controller.stream("s").window({0: 9}, None).sealed
            memory.watch.failures.append(StoreUnavailable("no"))
        with pytest.raises(StoreUnavailable):
            await seal
        await wait_until_async(lambda: controller._committer.ready)

        assert (is_sealed, controller.stream("s").final_cut) == (False, None)
        assert await deliver(controller, Note("a", 6)) == [Accepted(6)]


async def test_seal_of_many_writers_lets_others_run(memory: WatchedMemory) -> None:
    """At most a slice of the writers is sealed between their turns."""
    many = 2 * SLICE_SIZE + 1
    async with serve_stream(memory) as controller:
        await deliver(controller, Note("w0", 0))
        await deliver(controller, *(Note(f"w{number}") for number in range(1, many)))
        stream = controller.stream("s")
        census = stream.aggregator.domains.census
        missing = stream.missing["default"]
        seal = asyncio.create_task(controller.seal("s", OPS, NOTHING))
        progress = [(0, 0)]
        shown_states = set()
        while not seal.done():
            await asyncio.sleep(0)
            progress.append((census.members["finished"], len(missing.open_writers)))
            shown_states.add((list_marks(controller)[-1].final, stream.final_cut is not None))
        late = await deliver(controller, Note("w0", many))

    finished_steps = []
    missing_steps = []
    for (finished, missing_count), (later_finished, later_missing) in pairwise(progress):
        finished_steps.append(later_finished - finished)
        missing_steps.append(later_missing - missing_count)
    assert max(finished_steps) == max(missing_steps) == SLICE_SIZE
    assert progress[-1] == (many, many - 1)
    assert (shown_states, late) == ({(False, False), (True, True)}, [Refused("sealed")])


async def test_long_polls_end_with_stream(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        await deliver(controller, Note("a", 5, {0: 9}, max_time=3))
        polls = controller.polls
        marks = asyncio.create_task(polls.marks("s", None, after=1, wait_ms=30_000))
        requirement = Requirement(to=99, wait_ms=30_000)
        waiting = asyncio.create_task(polls.wait_for_verdict("s", requirement, 99))
        await asyncio.sleep(0)
        await controller.seal("s", OPS, NOTHING)
        async with asyncio.timeout(5):
            new_marks = await marks
            await waiting
            later_marks = await polls.marks("s", None, after=1, wait_ms=30_000)

        assert (later_marks.history.last_seq, new_marks.stream.final_cut) == (1, {0: 9})
