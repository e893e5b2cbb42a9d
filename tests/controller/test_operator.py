"""What is written down of the changes that operators make, and of those that change nothing."""

import asyncio

import pytest

from controller.aggregation import operator
from controller.aggregation.operator import ANONYMOUS, Order, Truncation, truncation
from controller.service import maintenance
from controller.service.controller import Controller
from controller.store.port import Change, StoreUnavailable
from noted_time import Note, NotedMeanwhile, ScaleEvent
from noted_time.values import DAY_MS
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    marks_of,
    member,
    running,
    serve_for,
    serving,
    until,
)

OPS = Order("ops", "it is slow")


async def changes(controller: Controller) -> list[tuple[int, Change]]:
    """Return all changes of the stream `s`, the newest first."""
    return await controller.views.changes("s", before=None, limit=1000)


async def test_what_changes_nothing_is_not_recorded(memory: WatchedMemory) -> None:
    """Neither settings as they are, nor what was removed, released or truncated before."""
    async with serving(memory) as controller:
        await deliver(controller, Note("a", 1, {0: 5}), Note("b", 2, {0: 6}))
        await controller.change("s", operator.remove, ANONYMOUS, "a")
        before = len(await changes(controller))
        await controller.put_stream("s", {"mark_interval_ms": 0})
        await controller.change("s", operator.remove, ANONYMOUS, "a")
        await controller.change("s", operator.hold, ANONYMOUS, "b", None)
        await controller.change("s", operator.truncate, ANONYMOUS, {})
        await controller.change("s", operator.scale, ANONYMOUS, ScaleEvent({}, {}))

        assert len(await changes(controller)) == before


async def test_numbers_continue_after_a_restart(store: Watched) -> None:
    """They rise by one in the order of the changes."""
    async with serving(store) as controller:
        await deliver(controller, Note("a", 1))
        await controller.change("s", operator.hold, ANONYMOUS, "a", 1000)
    async with running(store.reopened()) as controller:
        await controller.change("s", operator.hold, ANONYMOUS, "a", 2000)
        found = [(number, change.action) for number, change in await changes(controller)]

    assert found == [(3, "held"), (2, "held"), (1, "created")]


async def test_a_change_that_was_not_written_is_not_recorded(store: Watched) -> None:
    """Both are in one transaction."""
    async with serving(store) as controller:
        await deliver(controller, Note("a", 1))
        store.watch.failures.append(StoreUnavailable("the disk is full"))
        with pytest.raises(StoreUnavailable):
            await controller.change("s", operator.remove, ANONYMOUS, "a")
        await until(lambda: controller._committer.ready)

        found = (member(controller, "a").state, len(await changes(controller)))
    assert found == ("live", 1)


async def test_changes_of_one_batch_are_numbered_in_their_order(store: Watched) -> None:
    """However many a transaction takes."""
    async with serving(store) as controller:
        await deliver(controller, Note("a", 1))
        store.watch.open.clear()
        calls = [controller.change("s", operator.hold, ANONYMOUS, "a", ms) for ms in (1, 2, 3, 4)]
        waiting = asyncio.gather(*calls)
        await asyncio.sleep(0)
        store.watch.open.set()
        await waiting

        found = [
            (n, each.became and each.became.get("for_ms")) for n, each in await changes(controller)
        ]
    assert found[:-1] == [(5, 4), (4, 3), (3, 2), (2, 1)]


async def test_changes_are_kept_for_90_days(store: Watched, time: GivenTime) -> None:
    """But for the last one, after which the next is numbered."""
    async with serving(store, time) as controller:
        await deliver(controller, Note("a", 1))
        time.wall += 90 * DAY_MS
        await controller.change("s", operator.hold, ANONYMOUS, "a", 1000)
        time.wall += 1
        await asyncio.sleep(0)  # a controller just started begins to count from its first turn
        serve_for(controller, time, maintenance.FORGET_RECORDS_EVERY_MS)
        await until(lambda: store.changes(controller.stream("s").id, before=2, limit=9) == [])

        assert [number for number, _ in await changes(controller)] == [2]


async def test_a_writer_that_noted_meanwhile_is_not_removed(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """The caller saw it silent; at that moment it still counts as silent."""
    async with serving(memory, time) as controller:
        await deliver(controller, Note("a", 1))
        seen = member(controller, "a").noted_at
        serve_for(controller, time, 50)
        await deliver(controller, Note("a", 2))
        with pytest.raises(NotedMeanwhile) as refused:
            await controller.change("s", operator.remove, OPS, "a", seen)
        kept = member(controller, "a").state, len(await changes(controller))
        await controller.change("s", operator.remove, OPS, "a", refused.value.noted_at)
        removed = member(controller, "a")

    assert (kept, refused.value.writer, refused.value.noted_at) == (("live", 1), "a", seen + 50)
    assert removed.state == "excluded"


async def test_a_note_that_came_first_is_seen_by_the_removal(
    store: Watched, time: GivenTime
) -> None:
    """It is checked when the removal is done, not when it is requested."""
    async with serving(store, time) as controller:
        await deliver(controller, Note("a", 1))
        seen = member(controller, "a").noted_at
        store.watch.open.clear()
        under_way = asyncio.ensure_future(deliver(controller, Note("b", 1)))
        await until(lambda: store.watch.attempts == 3)
        serve_for(controller, time, 50)
        noted = controller.note("s", [Note("a", 2)])
        removal = asyncio.ensure_future(controller.change("s", operator.remove, OPS, "a", seen))
        await asyncio.sleep(0)
        store.watch.open.set()
        await asyncio.gather(under_way, noted)

        with pytest.raises(NotedMeanwhile):
            await removal


@pytest.mark.parametrize(
    ("cut", "does"),
    [
        ({}, Truncation(beyond=False, dropped={"x": 0, "y": 0})),
        ({0: 20}, Truncation(beyond=False, dropped={"x": 1, "y": 0})),
        ({0: 31}, Truncation(beyond=True, dropped={"x": 2, "y": 0})),
        ({0: 40}, Truncation(beyond=True, dropped={"x": 2, "y": 1})),
        ({0: 10, 1: 1}, Truncation(beyond=True, dropped={"x": 0, "y": 0})),
    ],
)
async def test_a_truncation_does_what_its_dry_run_shows(
    memory: WatchedMemory, cut: dict[int, int], does: Truncation
) -> None:
    """How many marks of each domain go, and whether a domain's last mark is behind the cut."""
    async with serving(memory, domains=("x", "y")) as controller:
        notes = [(1, 10, "x"), (1, 10, "y"), (2, 20, "x"), (3, 30, "x"), (2, 40, "y")]
        await deliver(
            controller, *(Note("a", t, {0: to}, domain=domain) for t, to, domain in notes)
        )
        marks = {domain: len(marks_of(controller, domain)) for domain in ("x", "y")}
        said = truncation(controller.stream("s"), cut)
        _, done = await controller.change("s", operator.truncate, ANONYMOUS, cut)

        left = {domain: len(marks_of(controller, domain)) for domain in marks}
    gone = {domain: marks[domain] - left[domain] for domain in marks}
    assert (said, done, gone) == (does, does, does.dropped)


async def test_without_a_mark_any_cut_is_beyond(memory: WatchedMemory) -> None:
    """But for the one before all."""
    async with serving(memory) as controller:
        stream = controller.stream("s")
        found = [truncation(stream, cut).beyond for cut in ({}, {0: 0}, {0: 1})]

    assert found == [False, False, True]
