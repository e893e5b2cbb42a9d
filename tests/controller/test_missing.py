"""Which writers complete windows and cuts name as missing, from their last time to their return."""

from collections.abc import Iterable

from controller.aggregation import operator, retention
from controller.aggregation.operator import ANONYMOUS
from controller.service import maintenance
from controller.service.controller import Controller
from noted_time import Note
from noted_time.reading import Tiling
from noted_time.values import Missing, MissingWriter
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    member,
    running,
    serve_for,
    serving,
    until,
)

WALL = 1_700_000_000_000
TIMEOUT_MS = 1000


def names(found: Iterable[Missing]) -> list[str]:
    """Return the missing writers, each window's in one string."""
    return [" ".join(sorted(each.writer for each in missing.writers)) for missing in found]


async def windows(controller: Controller, after: int = 0) -> list[Missing]:
    """Return the missing writers in the complete windows of ten."""
    found = await controller.polls.windows("s", None, Tiling(10), after=after, limit=100, wait_ms=0)
    return [window.missing for window in found.windows]


def cuts(controller: Controller) -> list[Missing]:
    """Return the missing writers at the cut of each mark."""
    stream = controller.stream("s")
    marks = stream.history(None).after(0, 100)
    coverage = stream.coverage(None)
    return [coverage.at_mark(mark, None, mark.lower).missing for mark in marks]


async def lose(controller: Controller, time: GivenTime, *writers: str) -> None:
    """Have `writers` time out, which hold the stream at their last note."""
    serve_for(controller, time, TIMEOUT_MS)

    def are_out() -> bool:
        rows = [member(controller, writer) for writer in writers]
        return all(row.state == "excluded" for row in rows)

    await until(are_out)


async def test_a_writer_is_missing_until_a_mark_counts_it_again(
    store: Watched, time: GivenTime
) -> None:
    """In each window that time passed without it, not in the first one alone."""
    async with serving(store, time, writer_timeout_ms=TIMEOUT_MS) as controller:
        await deliver(controller, Note("a", 10), Note("slow", 10))
        await lose(controller, time, "a", "slow")
        await deliver(controller, *(Note("a", at) for at in (20, 30, 40)))
        await deliver(controller, Note("slow", 40), Note("a", 60), Note("slow", 60))

        found, named = await windows(controller), cuts(controller)

    assert names(found) == ["", "slow", "slow", "slow", "", ""]
    assert found[1].writers == (MissingWriter("slow", "timed_out", WALL + TIMEOUT_MS, 10),)
    assert names(named) == ["", "slow", "slow", "slow", ""]


async def test_who_is_missing_is_known_after_a_restart(store: Watched, time: GivenTime) -> None:
    """Those that are still away, those that came back, and those that finished meanwhile."""
    async with serving(store, time, writer_timeout_ms=TIMEOUT_MS) as controller:
        writers = ("away", "back", "done")
        await deliver(controller, Note("a", 10), *(Note(each, 10) for each in writers))
        await lose(controller, time, "a", *writers)
        await deliver(controller, Note("a", 20), Note("done", state="finished"))
        await deliver(controller, Note("a", 30), Note("back", 30))
        before = await windows(controller), cuts(controller)
    async with running(store.reopened(), time) as controller:
        after = await windows(controller), cuts(controller)
        await deliver(controller, Note("back", 50), Note("a", 50))
        then = names(await windows(controller))

    assert after == before
    assert then == ["", "away back done", "away back", "away", "away"]


async def test_a_writer_that_is_forgotten_is_missing_all_the_same(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """Until it comes back, over a restart too."""
    settings = {"writer_timeout_ms": TIMEOUT_MS, "writer_retention_ms": 5000}
    async with serving(memory, time, **settings) as controller:
        await deliver(controller, Note("a", 10), Note("slow", 10))
        await lose(controller, time, "a", "slow")
        await deliver(controller, Note("a", 20))
        serve_for(controller, time, 900)
        await deliver(controller, Note("a", 20))
        for _ in range(6):
            serve_for(controller, time, 900)
            await deliver(controller, Note("a", 20))
        await controller._committer.submit(maintenance.forget_departed)
        known = "slow" in controller.stream("s").aggregator
    async with running(memory.reopened(), time) as controller:
        await deliver(controller, Note("a", 30), Note("slow", 30), Note("a", 40), Note("slow", 40))
        found = names(await windows(controller))

    assert (known, found) == (False, ["", "slow", "slow", ""])


async def test_windows_show_that_the_ledger_does_not_reach_back(
    store: Watched, time: GivenTime
) -> None:
    """Of those that began before the end of an interval that is forgotten, over a restart too."""
    async with serving(store, time, writer_timeout_ms=TIMEOUT_MS) as controller:
        await deliver(controller, Note("a", 10), Note("slow", 10))
        await lose(controller, time, "a", "slow")
        await deliver(controller, Note("a", 20), Note("slow", 20), Note("a", 40), Note("slow", 40))
        time.wall += retention.RECORDS_KEPT_MS + TIMEOUT_MS + 1
        await controller._committer.submit(retention.forget_old_records)
        now = await windows(controller)
    async with running(store.reopened(), time) as controller:
        after = await windows(controller)

    assert [each.is_known for each in now] == [False, False, True, True]
    assert after == now


async def test_a_forgotten_writer_is_missing_no_longer_once_it_joined_and_was_removed(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """So an operator can be done with a writer that never comes back."""
    async with serving(memory, time, writer_timeout_ms=TIMEOUT_MS) as controller:
        await deliver(controller, Note("a", 10), Note("slow", 10))
        await lose(controller, time, "a", "slow")
        await deliver(controller, Note("a", 20))
        await controller.put_stream("s", {"writer_retention_ms": 1})
        serve_for(controller, time, 900)
        await controller._committer.submit(maintenance.forget_departed)
        known = "slow" in controller.stream("s").aggregator
        await deliver(controller, Note("slow"))
        await controller.change("s", operator.remove, ANONYMOUS, "slow")
        await deliver(controller, Note("a", 30), Note("a", 40))
        found = names(await windows(controller))

    assert (known, found) == (False, ["", "slow", "slow", ""])
