"""Silent writers are excluded on the service clock, and windows name them as missing."""

import asyncio
from collections import Counter
from collections.abc import Iterable

import pytest
from structlog.testing import CapturingLogger

from controller.aggregation import operations, retention
from controller.aggregation.operations import ANONYMOUS_ORDER
from controller.aggregation.views import inspection
from controller.aggregation.views.view import View
from controller.aggregation.views.vouching import Vouching
from controller.service import maintenance
from controller.service.controller import Controller
from controller.service.maintenance import MOST_LOGGED
from noted_time.reading import Tiling
from noted_time.values import Absence, Accepted, Missing, Note
from noted_time.verdict import Requirement, judge_time
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    explain_stream,
    list_marks,
    member,
    run_controller,
    serve_for,
    serve_stream,
    skip_served_time,
    wait_until_async,
)

SOON = 5 * maintenance.TICK_S
"""Several ticks, in seconds."""


def list_excluded(controller: Controller) -> list[str]:
    rows = inspection.writers(controller.stream("s"), controller.now, range(100)).writers
    return [row.writer for row in rows if row.state == "excluded"]


async def forget_departed(controller: Controller, time: GivenTime) -> None:
    await controller.put_stream("s", {"writer_retention_ms": 1})
    serve_for(controller, time, 900)
    await controller._committer.submit(maintenance.forget_departed)


async def test_reason_of_held_writer_survives_restart(store: Watched, time: GivenTime) -> None:
    async with serve_stream(store, time) as controller:
        await deliver(controller, Note("a", 5, {0: 1}), Note("a", held="1 event was lost"))
    async with run_controller(store.reopen(), time) as controller:
        row = member(controller, "a")

    assert (row.held, row.state, row.times) == ("1 event was lost", "live", {"default": 5})


async def test_timeout_continues_after_downtime(store: Watched, time: GivenTime) -> None:
    async with serve_stream(store, time, writer_timeout_ms=5000) as controller:
        await deliver(controller, Note("silent"), Note("a", 5))
        serve_for(controller, time, 4000)
        await deliver(controller, Note("a", 6))
    time.passes(86_400_000)
    async with run_controller(store.reopen(), time) as controller:
        await asyncio.sleep(SOON)
        decision = explain_stream(controller)
        left = [(each.writer, each.times_out_in_ms) for each in decision.waiting_for]
        serve_for(controller, time, 1100)
        await wait_until_async(lambda: bool(list_marks(controller)))

        assert left == [("silent", 1000)]
        assert [(m.lower, m.excluded) for m in list_marks(controller)] == [(6, ("silent",))]


async def test_service_clock_is_stored_while_writer_holds(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """It is stored every few seconds, so a crash repeats no wait."""
    async with serve_stream(memory, time) as controller:
        await deliver(controller, Note("silent"))
        before = memory.clocks()[0]
        serve_for(controller, time, maintenance.KEEP_CLOCK_EVERY_MS)
        await wait_until_async(lambda: memory.clocks()[0] > before)

        assert memory.clocks()[0] - before == maintenance.KEEP_CLOCK_EVERY_MS


async def test_log_names_at_most_hundred_excluded_writers(
    memory: Watched, time: GivenTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller can make up names, so the log must be bounded."""
    logger = CapturingLogger()
    monkeypatch.setattr(maintenance, "log", logger)
    async with serve_stream(memory, time, writer_timeout_ms=1000) as controller:
        await deliver(controller, *(Note(f"w{n}") for n in range(103)), Note("a", 5))
        serve_for(controller, time, 1100)
        await wait_until_async(lambda: bool(list_marks(controller)))

    assert Counter(call.args[0] for call in logger.calls)["writer_excluded"] == MOST_LOGGED
    assert logger.calls[-1].kwargs == {"stream": "s", "count": 103, "named": MOST_LOGGED}


async def test_new_domain_waits_for_timeout_after_restart(store: Watched, time: GivenTime) -> None:
    async with serve_stream(store, time, domains=("a",), writer_timeout_ms=5000) as controller:
        await deliver(controller, Note("old", 5, domain="a"), Note("new", 6, domain="a"))
        serve_for(controller, time, 4900)
        await deliver(controller, Note("old", 5, domain="a"))
        await controller.put_stream("s", {"domains": ("a", "b")})
    async with run_controller(store.reopen(), time) as controller:
        serve_for(controller, time, 4200)
        await asyncio.sleep(SOON)

        waiting = explain_stream(controller, "b")
        assert {each.writer for each in waiting.waiting_for} == {"old", "new"}


async def test_writer_that_setting_takes_back_holds_from_then(
    store: Watched, time: GivenTime
) -> None:
    async with serve_stream(
        store, time, returning_writer="exclude", writer_timeout_ms=5000
    ) as before:
        await deliver(before, Note("a", 50), Note("late", 5))
        serve_for(before, time, 4000)
        await before.put_stream("s", {"returning_writer": "hold"})
    async with run_controller(store.reopen(), time) as controller:
        decision = explain_stream(controller)

        assert {w.writer: w.held_for_ms < 4000 for w in decision.waiting_for}["late"]


async def test_downtime_does_not_move_times_of_writer(
    memory: WatchedMemory, time: GivenTime
) -> None:
    async with serve_stream(memory, time, writer_timeout_ms=100) as controller:
        await deliver(controller, Note("slow", 5), Note("a", 9))
        serve_for(controller, time, 100)
        await wait_until_async(lambda: controller.stream("s").history(None).last_seq == 2)
        before = member(controller, "slow")
    time.wall += 3_600_000
    async with run_controller(memory.reopen(), time) as controller:
        after = member(controller, "slow")
        (answer,) = await deliver(controller, Note("slow", 6))
        returned = member(controller, "slow")
        removal = controller.change(
            "s", operations.remove, ANONYMOUS_ORDER, "slow", returned.noted_at
        )

        assert (after.noted_at, after.excluded) == (before.noted_at, before.excluded)
        assert isinstance(answer, Accepted)
        assert answer.exclusion is not None
        assert before.excluded is not None
        assert answer.exclusion.since == before.excluded.since
        assert before.excluded == returned.excluded
        await removal
        assert (returned.state, member(controller, "slow").state) == ("excluded", "excluded")


# Missing writers of windows and cuts, from their last time to their return


WALL = 1_700_000_000_000

TIMEOUT_MS = 1000


def names(found: Iterable[Missing]) -> list[str]:
    """Return the missing writers of each window that had joined before it."""
    return [
        " ".join(sorted(each.writer for each in missing.writers if not each.joined_later))
        for missing in found
    ]


async def windows(controller: Controller, after: int = 0) -> list[Missing]:
    """Return the missing writers in the complete windows of ten."""
    _, found = await controller.polls.windows(
        "s", None, Tiling(10), after=after, limit=100, wait_ms=0
    )
    return [window.missing for window in found]


def cuts(controller: Controller) -> list[Missing]:
    stream = controller.stream("s")
    marks = stream.history(None).after(0, 100)
    coverage = stream.coverage(None)
    return [coverage.assess_mark(mark, None, mark.lower).missing for mark in marks]


async def lose(controller: Controller, time: GivenTime, *writers: str) -> None:
    """Let `writers` time out at their last note."""
    serve_for(controller, time, TIMEOUT_MS)

    def are_out() -> bool:
        rows = [member(controller, writer) for writer in writers]
        return all(row.state == "excluded" for row in rows)

    await wait_until_async(are_out)


async def test_missing_writers_are_known_after_restart(store: Watched, time: GivenTime) -> None:
    async with serve_stream(store, time, writer_timeout_ms=TIMEOUT_MS) as controller:
        writers = ("away", "back", "done")
        await deliver(controller, Note("a", 10), *(Note(each, 10) for each in writers))
        await lose(controller, time, "a", *writers)
        await deliver(controller, Note("a", 20), Note("done", state="finished"))
        await deliver(controller, Note("a", 30), Note("back", 30))
        before = await windows(controller), cuts(controller)
    async with run_controller(store.reopen(), time) as controller:
        after = await windows(controller), cuts(controller)
        await deliver(controller, Note("back", 50), Note("a", 50))
        then = names(await windows(controller))

    assert after == before
    assert before[0][2].writers[0] == Absence("away", "timed_out", WALL + TIMEOUT_MS, 10)
    assert then == ["", "away back done", "away back", "away", "away"]


async def test_forgotten_writer_stays_missing(memory: WatchedMemory, time: GivenTime) -> None:
    settings = {"writer_timeout_ms": TIMEOUT_MS, "writer_retention_ms": 5000}
    async with serve_stream(memory, time, **settings) as controller:
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
    async with run_controller(memory.reopen(), time) as controller:
        await deliver(controller, Note("a", 30), Note("slow", 30), Note("a", 40), Note("slow", 40))
        found = names(await windows(controller))

    assert (known, found) == (False, ["", "slow", "slow", ""])


async def test_windows_before_ledger_are_not_known(store: Watched, time: GivenTime) -> None:
    async with serve_stream(store, time, writer_timeout_ms=TIMEOUT_MS) as controller:
        await deliver(controller, Note("a", 10), Note("slow", 10))
        await lose(controller, time, "a", "slow")
        await deliver(controller, Note("a", 20), Note("slow", 20), Note("a", 40), Note("slow", 40))
        skip_served_time(controller, retention.RECORDS_KEPT_MS + TIMEOUT_MS + 1)
        await controller._committer.submit(retention.forget_old_records)
        now = await windows(controller)
    async with run_controller(store.reopen(), time) as controller:
        after = await windows(controller)

    assert [each.is_known for each in now] == [False, False, True, True]
    assert after == now


async def test_forgotten_writer_is_not_missing_after_join_and_removal(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """So an operator can remove a lost writer for good."""
    async with serve_stream(memory, time, writer_timeout_ms=TIMEOUT_MS) as controller:
        await deliver(controller, Note("a", 10), Note("slow", 10))
        await lose(controller, time, "a", "slow")
        await deliver(controller, Note("a", 20))
        await forget_departed(controller, time)
        known = "slow" in controller.stream("s").aggregator
        await deliver(controller, Note("slow"))
        await controller.change("s", operations.remove, ANONYMOUS_ORDER, "slow")
        await deliver(controller, Note("a", 30), Note("a", 40))
        found = names(await windows(controller))

    assert (known, found) == (False, ["", "slow", "slow", ""])


async def test_returned_writer_vouches_from_mark_of_its_forgetting(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """For times before its rows begin: a forgotten writer of its name may have late rows."""
    async with serve_stream(memory, time, writer_timeout_ms=TIMEOUT_MS) as controller:
        await deliver(controller, Note("a", 10), Note("slow", 5))
        await lose(controller, time, "a", "slow")
        await deliver(controller, Note("slow", 15, {1: 9}, state="finished"), Note("a", 20))
        await forget_departed(controller, time)
        known = "slow" in controller.stream("s").aggregator
        await deliver(controller, Note("slow", 30, since=30))
        vouching = Vouching(View.of(controller.stream("s"), controller.now, None))
        first = vouching.history.complete_to(10).seq
        found = judge_time(vouching, Requirement(require=("slow",)), 10)

    assert (known, first, found.status) == (False, 1, "complete")
    assert found.mark is not None
    assert found.mark.seq == 3
