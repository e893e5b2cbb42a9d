import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from controller.aggregation import operator
from controller.aggregation.operator import ANONYMOUS
from controller.service.controller import Controller
from controller.store.port import StoreUnavailable
from noted_time import Accepted, Note, ScaleEvent
from noted_time.values import MarkConflict
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    marks_of,
    names,
    serve_for,
    serving,
    until,
)

FAILURES = [StoreUnavailable("the disk is full"), MarkConflict("s", "default", 1)]
DISK_FULL = StoreUnavailable("the disk is full")


async def refused(answer: Awaitable[Any]) -> type[Exception] | None:
    """Return what kind of error the answer is."""
    try:
        await answer
    except Exception as error:  # noqa: BLE001 - any kind is an answer
        return type(error)
    return None


async def ready(controller: Controller) -> None:
    """Wait until the streams were read again."""
    await until(lambda: controller._committer.ready)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
async def test_every_caller_of_a_failed_batch_gets_the_error(
    store: Watched, failure: Exception
) -> None:
    """One commit fails: all whose work was in it hear so, none is acknowledged."""
    async with serving(store) as controller:
        store.watch.failures = [failure]
        raised = await asyncio.gather(
            *(refused(deliver(controller, Note(f"w{i}"))) for i in range(20))
        )

        assert raised == [type(failure)] * 20


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
async def test_a_later_note_is_judged_by_what_is_durable(
    store: Watched, failure: Exception
) -> None:
    """A note below the one that failed is accepted: that one never happened."""
    async with serving(store) as controller:
        await deliver(controller, Note("a", 2, {0: 2}))
        store.watch.failures = [failure]
        await refused(deliver(controller, Note("a", 5, {0: 50}), Note("b", 9)))
        await ready(controller)

        after = await deliver(controller, Note("a", 3, {0: 3}))
        durable = {m.writer: m.times for m in store.members(controller.stream("s").id)}
        assert (after, durable) == ([Accepted(3)], {"a": {"default": 3}})


async def test_callers_behind_a_failed_batch_get_the_error_at_once(store: Watched) -> None:
    """Work that was queued while the commit failed is refused with it, and does not hang."""
    async with serving(store) as controller:
        store.watch.failures = [DISK_FULL]
        store.watch.open.clear()
        first = asyncio.create_task(refused(deliver(controller, Note("a"))))
        await until(lambda: store.watch.attempts == 2)
        behind = asyncio.create_task(refused(deliver(controller, Note("b"))))
        await asyncio.sleep(0)
        store.watch.open.set()

        assert [await first, await behind] == [StoreUnavailable] * 2


CHANGES: dict[str, Callable[[Controller], Awaitable[Any]]] = {
    "create": lambda controller: controller.put_stream("new", {}),
    "settings": lambda controller: controller.put_stream("s", {"writer_timeout_ms": 5}),
    "domains": lambda controller: controller.put_stream("s", {"domains": ("default", "other")}),
    "drop": lambda controller: controller.drop_stream("s"),
    "scale": lambda controller: controller.change(
        "s", operator.scale, ANONYMOUS, ScaleEvent({0: 9}, {1: (0,)})
    ),
    "report": lambda controller: controller.report("s", "g", "r", {0: 5}),
    "offline": lambda controller: controller.offline("s", "g", "first", {0: 1}),
}


def shown(controller: Controller) -> Any:  # noqa: ANN401 - whatever is there to be compared
    """Return all that a change could have changed."""
    stream = controller.stream("s")
    groups = {
        name: (stream.groups[name].position, sorted(stream.groups[name].readers))
        for name in stream.groups
    }
    return names(controller), stream.record, list(stream.scale_events), groups


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_change_that_was_not_written_is_undone(
    store: Watched, change: Callable[[Controller], Awaitable[Any]]
) -> None:
    """Whatever failed to be committed leaves no trace in memory."""
    async with serving(store) as controller:
        await deliver(controller, Note("a", 1, {0: 5}))
        await controller.report("s", "g", "first", {0: 3})
        before = shown(controller)
        store.watch.failures = [DISK_FULL]
        raised = await refused(change(controller))
        await ready(controller)

        assert (raised, shown(controller)) == (StoreUnavailable, before)


async def test_a_database_that_stays_away_is_asked_less_and_less(memory: WatchedMemory) -> None:
    """A mark that is due but cannot be written does not keep the controller spinning."""
    async with serving(memory, mark_interval_ms=50) as controller:
        await deliver(controller, Note("a", 1))
        memory.watch.failures = [DISK_FULL] * 1000
        before = memory.watch.attempts
        await refused(deliver(controller, Note("b", 2), Note("a", 2)))
        await asyncio.sleep(0.6)
        attempts = memory.watch.attempts - before
        memory.watch.failures.clear()

        assert attempts <= 6


async def test_while_the_streams_are_reloaded_requests_are_refused_at_once(
    memory: WatchedMemory,
) -> None:
    """No caller hangs on a database that is away, and it is found again without help."""
    async with serving(memory) as controller:
        memory.watch.failures = [DISK_FULL]
        memory.watch.loads = [StoreUnavailable("locked")] * 3
        await refused(deliver(controller, Note("a", 5)))
        raised = await refused(deliver(controller, Note("a", 5)))
        still_away = bool(memory.watch.loads)
        await ready(controller)

        accepted = await deliver(controller, Note("a", 4))
        assert (raised, still_away, accepted) == (StoreUnavailable, True, [Accepted(4)])


async def test_a_controller_closes_while_its_database_is_away(memory: WatchedMemory) -> None:
    """A shutdown does not wait for a database that does not come back."""
    async with serving(memory) as controller:
        memory.watch.failures = [DISK_FULL]
        memory.watch.loads = [StoreUnavailable("locked")] * 1000
        await refused(deliver(controller, Note("a", 5)))
        await until(lambda: len(memory.watch.loads) < 998)

    assert len(memory.watch.loads) > 900


async def test_writers_are_not_timed_out_by_a_database_that_is_away(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """The service clock stands while no note is accepted, as no writer could have been heard."""
    async with serving(memory, time, writer_timeout_ms=5000) as controller:
        await deliver(controller, Note("a", 1), Note("b"))
        before = controller._clocks.read().service
        memory.watch.failures = [DISK_FULL]
        memory.watch.open.clear()
        failing = asyncio.create_task(refused(deliver(controller, Note("b", 1))))
        await until(lambda: memory.watch.attempts == 3)
        serve_for(controller, time, 60_000)
        memory.watch.open.set()
        await failing
        await ready(controller)

        assert controller._clocks.read().service == before


async def test_the_ticker_outlives_a_conflict(memory: WatchedMemory, time: GivenTime) -> None:
    """A timeout that could not be written is written by a later tick."""
    async with serving(memory, time, writer_timeout_ms=500) as controller:
        await deliver(controller, Note("b"), Note("a", 5))
        memory.watch.failures = [MarkConflict("s", "default", 1)]
        serve_for(controller, time, 600)
        await until(lambda: not memory.watch.failures)
        await ready(controller)
        serve_for(controller, time, 600)
        await until(lambda: bool(marks_of(controller)))

        assert [(mark.lower, mark.excluded) for mark in marks_of(controller)] == [(5, ("b",))]


async def test_a_mark_that_was_written_all_the_same_wakes_its_readers(
    memory: WatchedMemory,
) -> None:
    """If the commit failed after all was written, readers see it without another mark."""
    async with serving(memory) as controller:
        poll = asyncio.create_task(controller.polls.marks("s", None, after=0, wait_ms=30_000))
        await until(lambda: len(controller._notifier) == 1)
        memory.watch.lies = [StoreUnavailable("the connection broke")]
        await refused(deliver(controller, Note("a", 5)))

        async with asyncio.timeout(5):
            found = await poll
        assert [mark.lower for mark in found.marks] == [5]
