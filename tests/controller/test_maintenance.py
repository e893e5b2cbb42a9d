"""What a controller does by itself, every tenth of a second."""

import asyncio
from collections import Counter

import pytest
from structlog.testing import CapturingLogger

from controller.aggregation import operations, retention
from controller.aggregation.operations import ANONYMOUS_ORDER
from controller.service import maintenance
from controller.service.maintenance import MOST_LOGGED
from noted_time.values import LateRows, Note
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    list_marks,
    serve_for,
    serve_stream,
    skip_served_time,
    wait_until_async,
)


async def test_ticks_delete_old_records(store: Watched, time: GivenTime) -> None:
    """Marks, groups whose readers are silent, and changes are deleted."""
    settings = {"mark_retention_ms": 1000, "reader_timeout_ms": 1000}
    async with serve_stream(store, time, **settings) as controller:
        await deliver(controller, Note("a", 1), Note("a", 2))
        await controller.report("s", "g", "r", {0: 1})
        skip_served_time(controller, retention.RECORDS_KEPT_MS)
        await controller.change("s", operations.suspend_timeout, ANONYMOUS_ORDER, "a", 1000)
        skip_served_time(controller, 1)
        stream = controller.stream("s")

        def find_rest() -> tuple[list[int], list[str], list[int]]:
            marks = [each.mark.seq for each in store.marks(stream.id, "default")]
            changes = [each.number for each in store.changes(stream.id, before=None, limit=9)]
            return marks, [*stream.groups], changes

        before = find_rest()
        serve_for(controller, time, maintenance.FORGET_RECORDS_EVERY_MS)
        await wait_until_async(lambda: find_rest() == ([2], [], [2]))

    assert before == ([1, 2], ["g"], [2, 1])


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


async def test_service_clock_is_stored_once_after_late_report(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """A look begins at the stored clock, so it would find the last report again and again."""
    async with serve_stream(memory, time, writer_timeout_ms=100) as controller:
        await deliver(controller, Note("a", 40), Note("a", state="finished"))
        serve_for(controller, time, maintenance.KEEP_CLOCK_EVERY_MS)
        await asyncio.sleep(2 * maintenance.TICK_S)
        stored = [memory.clocks()[0]]
        await deliver(controller, Note("a", state="finished", late_rows=LateRows(1, 12)))
        for _ in range(2):
            serve_for(controller, time, maintenance.KEEP_CLOCK_EVERY_MS)
            await asyncio.sleep(3 * maintenance.TICK_S)
            stored.append(memory.clocks()[0])

    assert stored == [0, 2 * maintenance.KEEP_CLOCK_EVERY_MS, 2 * maintenance.KEEP_CLOCK_EVERY_MS]


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
