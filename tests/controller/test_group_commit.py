"""Group commits: one transaction for many notes, its draft, and failures of the store."""

import asyncio
import threading
from collections.abc import Awaitable
from copy import deepcopy
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace
from structlog.testing import CapturedCall, CapturingLogger

from controller.aggregation.draft import Draft, Moment
from controller.aggregation.stream import StreamState
from controller.service import committer, ownership
from controller.service.controller import Controller
from controller.store.port import StoreLost, StoreUnavailable
from controller.store.records import AppendedMark, ChangeSet, LedgerPart, StoredMember
from noted_time.rules import SLICE_SIZE, MemberRecord
from noted_time.values import Accepted, MarkConflict, Note
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    list_marks,
    run_controller,
    serve_for,
    serve_stream,
    wait_until_async,
)
from tests.support.scrapes import scrape
from tests.support.stored import stream


async def test_notes_during_commit_share_next(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit has a limited number of notes."""
    monkeypatch.setattr(committer, "BATCH_NOTES", 30)
    async with serve_stream(store) as controller:
        async with store.watch.hold(deliver(controller, Note("first"))) as first:
            rest = [
                asyncio.create_task(deliver(controller, Note(f"w{number}"))) for number in range(50)
            ]
            await asyncio.sleep(0)
        await asyncio.gather(first, *rest)

        assert [len(list_members(batch)) for batch in store.watch.batches[1:]] == [1, 30, 20]


async def test_mark_is_committed_with_its_notes(store: Watched) -> None:
    async with serve_stream(store, mark_interval_ms=200) as controller:
        await deliver(controller, Note("a", 5, {0: 7}))

        batch = store.watch.batches[-1]
        marks = [appended_mark.mark for appended_mark in batch.list_puts(AppendedMark)]
        assert (len(list_members(batch)), marks) == (1, list_marks(controller))


async def test_newcomer_is_listed_until_its_mark_is_durable(store: Watched) -> None:
    """Otherwise a reader would take its rows to be complete during the commit."""

    def list_not_joined() -> list[tuple[str, bool]]:
        coverage = controller.stream("s").coverage(None)
        marks = list_marks(controller)
        absences = [*coverage.newcomers.writers]
        absences += [absence for absence, _, _ in coverage.missing.list_absences()]
        return [(absence.writer, len(marks) == 1) for absence in absences]

    async with serve_stream(store) as controller:
        await deliver(controller, Note("a", 5))
        notes = deliver(controller, Note("b", 9), Note("a", 9))
        async with store.watch.hold(notes) as notes_held:
            meanwhile = list_not_joined()
        await notes_held

        assert (meanwhile, list_not_joined()) == ([("b", True)], [("b", False)])


async def test_stream_takes_no_changes_while_a_mark_takes_many_commits(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other streams do, and requests that waited are done in their order."""
    monkeypatch.setattr("controller.aggregation.stream.NAMED_AT_ONCE", 1)

    def list_written(batch: ChangeSet) -> list[str]:
        writers = [record.writer for record in list_members(batch)]
        marks = [
            f"mark {appended_mark.mark.seq}" for appended_mark in batch.list_puts(AppendedMark)
        ]
        parts = [f"part {part.number}" for part in batch.list_puts(LedgerPart)]
        return sorted([*writers, *marks, *parts])

    async with serve_stream(store) as controller:
        await controller.put_stream("t", {})
        await deliver(controller, Note("a", 5))
        before = len(store.watch.batches)
        await deliver(controller, Note("b", 9), Note("c", 9), Note("d", 9), Note("a", 9))
        waiting = [deliver(controller, Note("a", time)) for time in (10, 11)]
        other = controller.note("t", [Note("x", 1)])
        await asyncio.gather(*waiting, other)
        written_batches = [list_written(batch) for batch in store.watch.batches[before:]]

        assert written_batches == [
            ["a", "b", "c", "d"],
            ["mark 1", "part 0", "x"],
            ["part 1"],
            ["mark 2"],
            ["a"],
        ]
        assert list_marks(controller)[-1].lower == 9


async def test_cancelled_caller_does_not_delay_others(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        async with memory.watch.hold(deliver(controller, Note("gone", 5))) as gone_task:
            stays = asyncio.create_task(deliver(controller, Note("stays", 5)))
            gone_task.cancel()
        await stays

        assert sorted(controller.stream("s").aggregator.writers()) == ["gone", "stays"]


async def test_fault_of_one_request_undoes_its_batch(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batch fails, and the next starts clean; the log has the traceback."""
    logger = CapturingLogger()
    fault = ZeroDivisionError("x")
    monkeypatch.setattr(committer, "log", logger)
    async with serve_stream(store) as controller:
        note = asyncio.create_task(deliver(controller, Note("a", 5)))
        broken = asyncio.ensure_future(controller._committer.submit(Mock(side_effect=fault)))
        outcomes = await asyncio.gather(note, broken, return_exceptions=True)
        await wait_until_async(lambda: controller._committer.ready)

        after = await deliver(controller, Note("a", 3))
        assert ([type(outcome) for outcome in outcomes], after) == (
            [StoreUnavailable] * 2,
            [Accepted(3)],
        )
    assert str(outcomes[1]) == "the batch was given up: ZeroDivisionError"
    assert logger.calls == [
        CapturedCall("error", ("commit_failed",), {"error": "x", "exc_info": fault})
    ]


async def test_close_commits_waiting_notes(store: Watched) -> None:
    async with serve_stream(store) as controller:
        pending = [
            asyncio.create_task(deliver(controller, Note(f"w{number}", 5))) for number in range(20)
        ]
        await asyncio.sleep(0)
    answers = await asyncio.gather(*pending)

    async with run_controller(store.reopen()) as next_controller:
        members = len(next_controller.stream("s").aggregator)
    assert (len(answers), members) == (20, 20)


async def test_closed_controller_refuses_work(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        pass

    with pytest.raises(StoreUnavailable):
        await deliver(controller, Note("a"))


# A draft with several changes of one record


def list_members(batch: ChangeSet) -> list[MemberRecord]:
    return [record.member for record in batch.list_puts(StoredMember)]


def make_draft(*notes: Note) -> tuple[Draft, StreamState]:
    state = StreamState(stream())
    draft = Draft(Moment(0, 0, 0))
    state.take_notes(notes, draft, 10_000)
    return draft, state


def test_draft_is_finished_in_slices() -> None:
    draft, _ = make_draft(*(Note(f"w{number}") for number in range(SLICE_SIZE + 1)))
    counts = [len(list_members(draft.batch)) for _ in draft.finish()]

    assert [*counts, len(list_members(draft.batch))] == [SLICE_SIZE, SLICE_SIZE + 1]


def test_later_note_does_not_change_finished_draft() -> None:
    """Another thread writes the draft."""
    draft, state = make_draft(Note("a", 1, {0: 1}))
    assert [*draft.finish()] == []
    state.take_notes([Note("a", 2, {0: 2})], Draft(Moment(0, 0, 0)), 10)

    (record,) = list_members(draft.batch)
    assert (record.times, record.position) == ({"default": 1}, {0: 1})


def test_forgotten_writer_is_not_written() -> None:
    draft, state = make_draft(*map(Note, ("w0", "w1", "w2", "w3")))
    draft.forget(state, ["w3", "w1"])
    assert [*draft.finish()] == []

    assert [record.writer for record in list_members(draft.batch)] == ["w0", "w2"]
    assert [*draft.batch.list_drops(StoredMember)] == [("id-1", "w1"), ("id-1", "w3")]


DISK_FULL = StoreUnavailable("the disk is full")


async def catch_error(answer: Awaitable[Any]) -> type[Exception] | None:
    try:
        await answer
    except Exception as error:  # noqa: BLE001 - any kind is an answer
        return type(error)
    return None


async def wait_until_ready(controller: Controller) -> None:
    await wait_until_async(lambda: controller._committer.ready)


@pytest.mark.parametrize("failure", [DISK_FULL, MarkConflict("s", "default", 1)])
async def test_note_after_failed_commit_is_judged_by_durable_state(
    store: Watched, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All callers of the batch get the error, and a lower note is accepted without a pause."""
    monkeypatch.setattr(committer, "RETRY_BACKOFF", backoff := Mock())
    backoff.delay_s.return_value = 0.0
    async with serve_stream(store) as controller:
        await deliver(controller, Note("a", 2, {0: 2}))
        store.watch.failures = [failure]
        notes = (Note("a", 5, {0: 50}), Note("b", 9))
        errors = await asyncio.gather(*(catch_error(deliver(controller, note)) for note in notes))
        await wait_until_ready(controller)

        after = await deliver(controller, Note("a", 3, {0: 3}))
        durable = {
            record.writer: record.times for record in store.members(controller.stream("s").id)
        }
        assert errors == [type(failure)] * 2
        assert (after, durable) == ([Accepted(3)], {"a": {"default": 3}})
        assert backoff.delay_s.mock_calls == []


async def test_waiting_callers_get_error_of_failed_batch(store: Watched) -> None:
    async with serve_stream(store) as controller:
        store.watch.failures = [DISK_FULL]
        async with store.watch.hold(catch_error(deliver(controller, Note("a")))) as first:
            behind = asyncio.create_task(catch_error(deliver(controller, Note("b"))))
            await asyncio.sleep(0)

        assert [await first, await behind] == [StoreUnavailable] * 2


async def test_unavailable_database_is_asked_with_backoff(memory: WatchedMemory) -> None:
    async with serve_stream(memory, mark_interval_ms=50) as controller:
        await deliver(controller, Note("a", 1))
        memory.watch.failures = [DISK_FULL] * 1000
        before = memory.watch.attempts
        await catch_error(deliver(controller, Note("b", 2), Note("a", 2)))
        await asyncio.sleep(0.6)
        attempts = memory.watch.attempts - before
        memory.watch.failures.clear()

        assert attempts <= 6


async def test_requests_are_refused_during_reload(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        memory.watch.failures = [DISK_FULL]
        memory.watch.loads = [StoreUnavailable("locked")] * 3
        await catch_error(deliver(controller, Note("a", 5)))
        error = await catch_error(deliver(controller, Note("a", 5)))
        still_away = bool(memory.watch.loads)
        await wait_until_ready(controller)

        results = await deliver(controller, Note("a", 4))
        assert (error, still_away, results) == (StoreUnavailable, True, [Accepted(4)])


async def test_controller_closes_without_its_database(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        memory.watch.failures = [DISK_FULL]
        memory.watch.loads = [StoreUnavailable("locked")] * 1000
        await catch_error(deliver(controller, Note("a", 5)))
        await wait_until_async(lambda: len(memory.watch.loads) < 998)

    assert len(memory.watch.loads) > 900


async def test_writers_do_not_time_out_without_database(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """No note is accepted meanwhile."""
    async with serve_stream(memory, time, writer_timeout_ms=5000) as controller:
        await deliver(controller, Note("a", 1), Note("b"))
        before = controller._clocks.read().service
        memory.watch.failures = [DISK_FULL]
        async with memory.watch.hold(catch_error(deliver(controller, Note("b", 1)))) as failing:
            serve_for(controller, time, 60_000)
        await failing
        await wait_until_ready(controller)

        assert controller._clocks.read().service == before


async def test_ticker_outlives_conflict(memory: WatchedMemory, time: GivenTime) -> None:
    async with serve_stream(memory, time, writer_timeout_ms=500) as controller:
        await deliver(controller, Note("b"), Note("a", 5))
        memory.watch.failures = [MarkConflict("s", "default", 1)]
        serve_for(controller, time, 600)
        await wait_until_async(lambda: not memory.watch.failures)
        await wait_until_ready(controller)
        serve_for(controller, time, 600)
        await wait_until_async(lambda: bool(list_marks(controller)))

        assert [(mark.lower, mark.excluded) for mark in list_marks(controller)] == [(5, ("b",))]


async def test_mark_of_commit_with_lost_answer_wakes_readers(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        poll = asyncio.create_task(controller.polls.marks("s", None, after=0, wait_ms=30_000))
        await wait_until_async(lambda: len(controller._notifier) == 1)
        memory.watch.lies = [StoreUnavailable("the connection broke")]
        await catch_error(deliver(controller, Note("a", 5)))

        async with asyncio.timeout(5):
            new_marks = await poll
        assert [mark.lower for mark in new_marks.history.following(0)] == [5]


LOST = ("order", "ship")


async def test_lost_marks_are_reported_after_reload(
    memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marks of a lost domain are reported, too, also after a failed load.

    Changes, a metric and the log have them.
    """
    monkeypatch.setattr(ownership, "log", logger := CapturingLogger())
    async with serve_stream(memory, domains=("default", "order")) as controller:
        await deliver(controller, Note("a", 1), Note("a", 1, domain="order"))
        before = deepcopy(memory.tables)
        await controller.put_stream("s", {"domains": ("default", "order", "ship")})
        await deliver(controller, *(Note("a", 2, domain=domain) for domain in ("default", *LOST)))
        ((stream_id, kept_marks),) = memory.tables[AppendedMark].items()
        key = stream_id, "default", 2
        mark = replace(kept_marks[key].mark, written_at=7)  # the copy was written to
        before[AppendedMark][stream_id][key] = replace(kept_marks[key], mark=mark)
        memory.tables = before
        memory.watch.failures.append(StoreUnavailable("no"))
        clocks = Mock(side_effect=[StoreUnavailable("no"), memory.clocks()])
        monkeypatch.setattr(memory, "clocks", clocks)
        with pytest.raises(StoreUnavailable):
            await deliver(controller, Note("a", 3))
        await wait_until_async(lambda: controller._committer.ready)
        changes = await controller.views.changes("s", before=None, limit=3)
        lost_marks = scrape(controller, "noted_time_lost_marks_total")

    assert [(change.old_values, change.new_values) for change in changes] == [
        ({"domain": "ship", "seq": 1}, {"domain": "ship", "seq": 0}),
        ({"domain": "order", "seq": 2}, {"domain": "order", "seq": 1}),
        ({"domain": "default", "seq": 2}, {"domain": "default", "seq": 1}),
    ]
    assert (clocks.call_count, lost_marks) == (2, {("s",): 3.0})
    calls = [call for call in logger.calls if call.args == ("went_back",)]
    facts = {"stream": "s", "domain": "ship", "shown": 1, "found": 0}
    assert (len(calls), calls[-1]) == (3, CapturedCall("error", ("went_back",), facts))


async def test_store_is_called_by_one_thread(memory: WatchedMemory) -> None:
    """A second call waits for the first."""
    barrier = threading.Barrier(2)
    async with run_controller(memory) as controller:
        calls = [controller._committer._call_in_thread(barrier.wait, 0.1) for _ in range(2)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [threading.BrokenBarrierError] * 2


async def test_end_of_loop_is_not_reported_as_fault(
    memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop cancels the task."""
    loop = asyncio.get_running_loop()
    faults = list[object]()
    monkeypatch.setattr(loop, "call_exception_handler", faults.append)
    async with run_controller(memory) as controller:
        task = controller._committer._task
        assert task is not None
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)

        assert (faults, controller._committer.failed) == ([], False)


async def test_failed_turn_is_retried_until_store_is_lost(
    memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the reason each time."""
    logger = CapturingLogger()
    monkeypatch.setattr(committer, "log", logger)
    failures: list[Exception] = [StoreUnavailable("cut"), OSError("away"), StoreLost("removed")]
    async with serve_stream(memory) as controller:
        task = controller._committer
        monkeypatch.setattr(task.ownership, "is_due", lambda _: True)
        monkeypatch.setattr(memory, "heartbeat", Mock(side_effect=failures))
        task.wake()
        await wait_until_async(lambda: task.failed)
        error = await catch_error(deliver(controller, Note("a")))

    assert error == StoreUnavailable
    assert [(call.method_name, *call.args, call.kwargs) for call in logger.calls] == [
        ("warning", "turn_failed", {"error": "cut"}),
        ("warning", "store_unavailable", {"error": "away", "failures": 1}),
        ("critical", "store_lost", {"error": "removed"}),
    ]
