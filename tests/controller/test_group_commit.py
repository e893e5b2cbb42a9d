import asyncio

import pytest

from controller.aggregation.draft import Draft
from controller.aggregation.owned_streams import OwnedStreams
from controller.store.port import StoreUnavailable
from noted_time import Accepted, Note, Refused
from tests.support.controllers import (
    Watched,
    WatchedMemory,
    deliver,
    marks_of,
    running,
    serving,
    until,
)


async def test_a_note_is_answered_after_its_commit(store: Watched) -> None:
    """While the transaction is under way the caller waits; then the note is in the store."""
    async with serving(store) as controller:
        store.watch.open.clear()
        noted = asyncio.create_task(deliver(controller, Note("a", 5, {0: 1})))
        await until(lambda: store.watch.attempts == 2)
        early = noted.done()
        store.watch.open.set()
        await noted
        members = [member.times for member in store.members(controller.stream("s").id)]

        assert (early, members) == (False, [{"default": 5}])


async def test_what_arrives_during_a_commit_shares_the_next(store: Watched) -> None:
    """Fifty callers that come while one transaction runs are written by a second one."""
    async with serving(store) as controller:
        store.watch.open.clear()
        first = asyncio.create_task(deliver(controller, Note("first")))
        await until(lambda: store.watch.attempts == 2)
        rest = [asyncio.create_task(deliver(controller, Note(f"w{i}"))) for i in range(50)]
        await asyncio.sleep(0)
        store.watch.open.set()
        await asyncio.gather(first, *rest)

        assert [batch.records for batch in store.watch.batches[1:]] == [1, 50]


async def test_notes_of_one_batch_are_judged_in_the_order_they_came(store: Watched) -> None:
    """A later note below an earlier one of the same transaction is refused with its time."""
    async with serving(store) as controller:
        notes = (Note("a", 5, {0: 7}), Note("a", 4), Note("a", 6, {0: 6}), Note("a", 6, {0: 8}))
        answers = await asyncio.gather(*(deliver(controller, note) for note in notes))

        assert answers == [
            [Accepted(5)],
            [Refused("invalid_time", 5)],
            [Refused("invalid_position", {0: 7})],
            [Accepted(6)],
        ]


async def test_a_large_request_is_written_with_what_came_after_it(store: Watched) -> None:
    """In one transaction: each writer has its last state, however many notes a request has."""
    async with serving(store, mark_interval_ms=60_000) as controller:
        several = [Note(f"w{n:03}", time, {0: time}) for time in (1, 2) for n in range(100)]
        notes = [*several, Note("w005", 3, {0: 3}), Note("w006", 1, {0: 1})]
        await asyncio.gather(
            deliver(controller, *notes), deliver(controller, Note("w007", 4, {0: 4}), Note("z", 5))
        )
        count = len(store.watch.batches) - 1
    reopened = store.reopened()
    async with running(reopened) as controller:
        stored = {each.writer: each.times for each in reopened.members(controller.stream("s").id)}
        again = await deliver(controller, Note("w005", 2, {0: 3}), Note("w007", 4, {0: 3}))

    times = {f"w{n:03}": 2 for n in range(100)} | {"w005": 3, "w007": 4, "z": 5}
    assert (count, stored) == (1, {writer: {"default": time} for writer, time in times.items()})
    assert again == [Refused("invalid_time", 3), Refused("invalid_position", {0: 4})]


async def test_a_mark_is_in_the_transaction_of_the_notes_it_follows_from(store: Watched) -> None:
    """Notes and the mark they allow are durable together or not at all."""
    async with serving(store, mark_interval_ms=200) as controller:
        await deliver(controller, Note("a", 5, {0: 7}))

        batch = store.watch.batches[-1]
        assert (batch.records, [m.mark for m in batch.marks]) == (1, marks_of(controller))


async def test_a_note_answered_before_a_mark_is_taken_into_account_by_it(store: Watched) -> None:
    """The cut of a mark covers what was acknowledged before, whichever request made the mark."""
    async with serving(store) as controller:
        await deliver(controller, Note("a"), Note("b", 9, {1: 90}))
        await deliver(controller, Note("a", 9, {0: 10}))

        assert [dict(mark.cut.offsets) for mark in marks_of(controller)] == [{0: 10, 1: 90}]


async def test_a_caller_that_went_away_holds_up_no_other(memory: WatchedMemory) -> None:
    """A cancelled request neither disturbs its batch nor undoes what it asked for."""
    async with serving(memory) as controller:
        memory.watch.open.clear()
        gone = asyncio.create_task(deliver(controller, Note("gone", 5)))
        stays = asyncio.create_task(deliver(controller, Note("stays", 5)))
        await until(lambda: memory.watch.attempts == 2)
        gone.cancel()
        memory.watch.open.set()
        await stays

        assert sorted(controller.stream("s").aggregator.writers()) == ["gone", "stays"]


async def test_a_fault_of_one_request_is_reported_to_the_batch_and_undone(store: Watched) -> None:
    """Work that breaks halfway takes its batch with it, and the next one starts clean."""

    def breaks(_streams: OwnedStreams, _draft: Draft) -> None:
        raise ZeroDivisionError

    async with serving(store) as controller:
        noted = asyncio.create_task(deliver(controller, Note("a", 5)))
        broken = asyncio.ensure_future(controller._committer.submit(breaks))
        outcomes = await asyncio.gather(noted, broken, return_exceptions=True)
        await until(lambda: controller._committer.ready)

        after = await deliver(controller, Note("a", 3))
        assert ([type(each) for each in outcomes], after) == ([StoreUnavailable] * 2, [Accepted(3)])


async def test_what_waits_when_the_controller_closes_is_committed(store: Watched) -> None:
    """Closing answers the requests that were taken, each after its commit."""
    async with serving(store) as controller:
        pending = [asyncio.create_task(deliver(controller, Note(f"w{i}", 5))) for i in range(20)]
        await asyncio.sleep(0)
    answered = await asyncio.gather(*pending)

    async with running(store.reopened()) as again:
        members = len(again.stream("s").aggregator)
    assert (len(answered), members) == (20, 20)


async def test_a_closed_controller_refuses_work(memory: WatchedMemory) -> None:
    """After the end nothing is queued that would never be committed."""
    async with serving(memory) as controller:
        pass

    with pytest.raises(StoreUnavailable):
        await deliver(controller, Note("a"))
