"""What a controller does by itself, every tenth of a second."""

import asyncio

import pytest
from structlog.testing import CapturingLogger

from controller.aggregation import operations, retention, stream
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
            marks = [appended_mark.mark.seq for appended_mark in store.marks(stream.id, "default")]
            changes = [change.number for change in store.changes(stream.id, before=None, limit=9)]
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
        stored_ms = [memory.clocks()[0]]
        await deliver(controller, Note("a", state="finished", late_rows=LateRows(1, 12)))
        for _ in range(2):
            serve_for(controller, time, maintenance.KEEP_CLOCK_EVERY_MS)
            await asyncio.sleep(3 * maintenance.TICK_S)
            stored_ms.append(memory.clocks()[0])

    assert stored_ms == [
        0,
        2 * maintenance.KEEP_CLOCK_EVERY_MS,
        2 * maintenance.KEEP_CLOCK_EVERY_MS,
    ]


async def test_log_has_one_line_for_many_excluded_writers(
    memory: Watched, time: GivenTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller can make up names, so the log must be bounded."""
    logger = CapturingLogger()
    monkeypatch.setattr(maintenance, "log", logger)
    async with serve_stream(memory, time, writer_timeout_ms=1000) as controller:
        await deliver(controller, *(Note(f"w{number}") for number in range(103)), Note("a", 5))
        serve_for(controller, time, 1100)
        await wait_until_async(lambda: bool(list_marks(controller)))

    (line,) = (call for call in logger.calls if call.args[0].startswith("writer"))
    assert line.args == ("writers_excluded",)
    assert (line.kwargs["count"], len(line.kwargs["among_them"])) == (103, MOST_LOGGED)


async def test_marks_wait_until_all_silent_writers_are_excluded(
    memory: Watched, time: GivenTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit excludes a few, and one mark names all of them."""
    monkeypatch.setattr(stream, "EXCLUDED_AT_ONCE", 2)
    async with serve_stream(memory, time, writer_timeout_ms=1000) as controller:
        names = [f"w{number}" for number in range(7)]
        await deliver(controller, *(Note(name, 1) for name in names), Note("a", 5))
        serve_for(controller, time, 900)
        await deliver(controller, Note("a", 9))
        serve_for(controller, time, 200)
        await wait_until_async(lambda: bool(list_marks(controller)[1:]))
        first, second = list_marks(controller)

    assert (first.lower, first.excluded) == (1, ())
    assert (second.lower, second.excluded) == (9, tuple(names))
