"""Retention: streams forget marks by age and by readers, and departed writers."""

import asyncio
import gc
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from controller.aggregation import operations, retention
from controller.aggregation.operations import ANONYMOUS_ORDER
from controller.service import maintenance
from controller.service.controller import Controller
from controller.store.records import LateRecord
from noted_time.rules import Aggregator
from noted_time.values import DAY_MS, LateRows, Mark, Note, StreamSettings, TimeWindow
from noted_time.values.settings import ReturningWriter
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    list_marks,
    run_controller,
    serve_for,
    serve_stream,
    skip_served_time,
    wait_until_async,
)
from tests.support.scrapes import scrape
from tests.support.streams import advance_all as marks_of_stream
from tests.support.streams import deliver as tell_stream
from tests.support.streams import restart

HOUR_MS = 60 * 60 * 1000
STEPS_METRIC = "noted_time_clock_steps_total"


async def make_marks(controller: Controller, upto: int = 5) -> None:
    """Make marks with seq and lower 1, 2, 3 … at ten times as many events of segment 0."""
    await deliver(controller, *(Note("a", seq, {0: 10 * seq}) for seq in range(1, upto + 1)))


def seqs(controller: Controller, domain: str = "default") -> list[int]:
    """Return the seqs of the marks in memory."""
    return [mark.seq for mark in list_marks(controller, domain)]


async def wait_for_retention(controller: Controller, time: GivenTime, first: int) -> None:
    """Serve until the marks were forgotten by age; the first one kept must be `first`."""
    await asyncio.sleep(0)  # a controller just started begins to count from its first turn
    serve_for(controller, time, maintenance.FORGET_EVERY_MS)
    await wait_until_async(lambda: seqs(controller)[0] == first)


@pytest.mark.parametrize(
    ("offset", "goes_offline", "first"), [(30, False, 3), (25, False, 2), (30, True, 5)]
)
async def test_the_slowest_group_with_a_reader_online_decides(
    memory: WatchedMemory, time: GivenTime, offset: int, first: int, *, goes_offline: bool
) -> None:
    """A reader that stops reports it, so that its group does not keep the marks for ever."""
    async with serve_stream(memory, time, mark_retention_ms=0) as controller:
        for group, at in (("fast", 50), ("slow", offset)):
            await controller.report("s", group, "r", {0: at})
        if goes_offline:
            await controller.change("s", operations.take_offline, "slow", "r", {0: offset})
        await make_marks(controller)
        await wait_for_retention(controller, time, first=first)

        assert seqs(controller) == [*range(first, 6)]


async def test_reader_before_all_marks_keeps_them(memory: WatchedMemory, time: GivenTime) -> None:
    """Old marks are deleted only once it has passed them."""
    async with serve_stream(memory, time, mark_retention_ms=0) as controller:
        await controller.report("s", "g", "r", {})
        await make_marks(controller)
        serve_for(controller, time, 2 * maintenance.FORGET_EVERY_MS)
        await deliver(controller, Note("a", 6, {0: 60}))
        before = seqs(controller)
        await controller.report("s", "g", "r", {0: 40})
        await wait_for_retention(controller, time, first=4)

        assert (before, seqs(controller)) == ([1, 2, 3, 4, 5, 6], [4, 5, 6])


async def test_restored_readers_keep_their_marks(store: Watched, time: GivenTime) -> None:
    """The mark of its lower and all later marks stay, in memory and in the store."""
    async with serve_stream(store, time, mark_retention_ms=0) as controller:
        await controller.report("s", "g", "r", {0: 25})
        await make_marks(controller)
    reopened = store.reopen()
    async with run_controller(reopened, time) as controller:
        await wait_for_retention(controller, time, first=2)
        stream = controller.stream("s")
        stored = [kept.mark.seq for kept in reopened.marks(stream.id, "default")]

        assert (seqs(controller), stored, stream.window({0: 25}, None)) == (
            [2, 3, 4, 5],
            [2, 3, 4, 5],
            TimeWindow(2, 3, 2, 3),
        )


@pytest.mark.parametrize(
    ("cut", "kept"),
    [(0, [1, 2, 3, 4, 5]), (10, [1, 2, 3, 4, 5]), (29, [2, 3, 4, 5]), (30, [3, 4, 5]), (99, [5])],
)
async def test_truncation_deletes_earlier_marks(store: Watched, cut: int, kept: list[int]) -> None:
    """They are deleted in memory and in the store. The last mark always stays."""
    async with serve_stream(store) as controller:
        await make_marks(controller)
        stream, _ = await controller.change("s", operations.truncate, ANONYMOUS_ORDER, {0: cut})
        stored = [each.mark.seq for each in store.marks(stream.id, "default")]

        assert (seqs(controller), stored) == (kept, kept)


@pytest.mark.parametrize(("hours", "dropped"), [(5, 0), (4, 1), (2, 3), (1, 4), (0, 4)])
async def test_dry_run_counts_marks_a_shorter_retention_deletes(
    memory: WatchedMemory, time: GivenTime, hours: int, dropped: int
) -> None:
    """There are five marks, an hour apart. The dry run changes nothing."""
    async with serve_stream(memory, time, mark_retention_ms=DAY_MS) as controller:
        for seq in range(1, 6):
            await deliver(controller, Note("a", seq, {0: 10 * seq}))
            skip_served_time(controller, HOUR_MS)
        skip_served_time(controller, -HOUR_MS // 2)
        changes = {"mark_retention_ms": hours * HOUR_MS}
        found = controller.stream("s")
        does = operations.preview_settings(found, changes, found.service_ms(controller.now))
        before = seqs(controller)
        await controller.put_stream("s", changes)
        await wait_for_retention(controller, time, first=1 + dropped)

        assert (before, does) == ([1, 2, 3, 4, 5], {"default": dropped})


@pytest.mark.usefixtures("whole_log")
async def test_a_wall_clock_far_ahead_deletes_nothing(store: Watched, time: GivenTime) -> None:
    """The marks, ledger, changes and late rows stay, and the steps of the clock are reported."""

    def list_kept() -> tuple[object, ...]:
        found = controller.stream("s")
        ledger = store.ledger(found.id, "default", after=0, limit=9)
        changes = store.changes(found.id, before=None, limit=9)
        return (
            [*store.marks(found.id, "default")],
            ledger,
            changes,
            store.load(LateRecord, found.id),
        )

    async with serve_stream(store, time, max_time_ahead_ms=None) as controller:
        await make_marks(controller)
        await controller.change("s", operations.hold, ANONYMOUS_ORDER, "a", 1000)
        await deliver(controller, Note("b"), Note("b", 9), Note("a", 9, late=LateRows(3, 2, 2)))
        await controller.change("s", operations.remove, ANONYMOUS_ORDER, "b")
        await deliver(controller, Note("a", 10))
        before = list_kept()
        with capture_logs() as logs:
            for count, step_ms in ((1, 400 * DAY_MS), (2, -400 * DAY_MS)):
                time.wall += step_ms
                serve_for(controller, time, 80_000)
                await controller._committer.submit(retention.forget_old_marks)
                await controller._committer.submit(retention.forget_old_records)
                steps = {(): count}
                await wait_until_async(lambda: scrape(controller, STEPS_METRIC) == steps)  # noqa: B023

        stepped = [each["by_ms"] for each in logs if each["event"] == "clock_stepped"]
        assert (list_kept(), stepped) == (before, [400 * DAY_MS, -400 * DAY_MS])


# Departed writers are forgotten after the writer retention, and nothing else changes


RETENTION_MS = 1000

MANY = 100


@pytest.fixture
def rest_frozen() -> Iterator[None]:
    """Exclude the objects of earlier tests from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("rest_frozen")
def test_forgotten_writer_leaves_no_reference_cycles() -> None:
    """Full collections are rare, so cycles would add up."""
    names = [f"pod-{number}" for number in range(MANY)]
    stream = Aggregator(StreamSettings(writer_retention_ms=RETENTION_MS))
    tell_stream(stream, *(Note(name, 5, {0: 1}) for name in names))
    marks_of_stream(stream)
    tell_stream(stream, *(Note(name, state="finished") for name in names))
    gc.collect()

    forgotten = stream.forget_departed(RETENTION_MS, MANY)

    assert (len(forgotten), gc.collect()) == (MANY, 0)


Step = tuple[str, int, int, int, str]

steps = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 3),
        st.integers(0, 2),
        st.integers(0, 12),
        st.sampled_from(("live", "live", "live", "idle", "finished", "restart")),
    ),
    max_size=40,
)


def is_live(stream: Aggregator, writer: str) -> bool:
    """Whether the writer is a member that was heard in time."""
    if writer not in stream:
        return False
    record = stream.record(writer)
    return (record.state, record.excluded) == ("live", None)


def play_history(history: list[Step], returning: ReturningWriter, *, forgets: bool) -> list[Mark]:
    """Return the marks of a history of writers whose times and positions only rise."""
    stream = Aggregator(
        StreamSettings(writer_timeout_ms=10, writer_retention_ms=0, returning_writer=returning)
    )
    reached = dict.fromkeys("abc", (0, 0))
    marks: list[Mark] = []
    now = 0
    for writer, more, further, passes, state in history:
        now += passes
        if state == "restart":
            stream = restart(stream, {"default": now})
            continue
        if state != "live" and not is_live(stream, writer):
            continue  # a forgotten writer cannot note that it rests
        time, offset = reached[writer][0] + more, reached[writer][1] + further
        reached[writer] = time, offset
        position = {"abc".index(writer): offset, 3: time}
        stream.note(Note(writer, time, position, state=state), now)  # type: ignore[arg-type]
        marks += marks_of_stream(stream, now=now)
        stream.expire(now)
        marks += marks_of_stream(stream, now=now)
        if forgets:
            stream.forget_departed(now, MANY)
    return marks


OVERTAKEN: list[Step] = [
    *[("b", 0, 0, 0, "live"), ("a", 0, 0, 0, "live"), ("a", 0, 0, 10, "live")],
    *[("a", 1, 0, 0, "idle"), ("b", 0, 0, 0, "live"), ("a", 0, 0, 10, "restart")],
    *[("a", 0, 0, 0, "live"), ("a", 1, 0, 0, "live")],
]
"""A member is overtaken before a restart, and due to time out when it is over."""

LEADERLESS: list[Step] = [
    *[("c", 1, 0, 0, "live"), ("a", 0, 0, 0, "live"), ("c", 0, 0, 0, "finished")],
    *[("a", 0, 0, 2, "restart"), ("b", 0, 0, 8, "live"), ("b", 2, 0, 0, "live")],
]
"""A member is behind one that finished, and is forgotten, before a restart."""


RETURNED: list[Step] = [
    *[("c", 1, 0, 0, "live"), ("a", 0, 0, 0, "live"), ("c", 0, 0, 0, "finished")],
    *[("a", 0, 0, 2, "restart"), ("b", 0, 0, 6, "live"), ("c", 0, 0, 0, "live")],
    *[("b", 0, 0, 2, "live"), ("c", 1, 0, 0, "live")],
]
"""The member that finished notes again at its last time, and no other falls behind it by that."""


@example(history=OVERTAKEN, returning="hold")
@example(history=LEADERLESS, returning="hold")
@example(history=RETURNED, returning="exclude")
@given(history=steps, returning=st.sampled_from(("hold", "exclude")))
def test_forgotten_writers_change_no_mark(history: list[Step], returning: ReturningWriter) -> None:
    """Lowers, uppers, cuts and names are the same with the shortest retention and without it."""
    forgetting = play_history(history, returning, forgets=True)

    assert forgetting == play_history(history, returning, forgets=False)


def names(controller: Controller) -> list[str]:
    """Return the writers that the controller knows."""
    return list(controller.stream("s").aggregator.writers())


async def test_forgotten_writers_leave_memory_and_store(store: Watched, time: GivenTime) -> None:
    """Time advances before and after a restart."""
    async with serve_stream(store, time, writer_retention_ms=30_000) as controller:
        await deliver(
            controller, Note("a", 5), Note("gone", 5, {0: 1}), Note("gone", state="finished")
        )
        await deliver(controller, Note("a", 6))
        serve_for(controller, time, maintenance.FORGET_EVERY_MS)
        await wait_until_async(lambda: names(controller) == ["a"])
        await wait_until_async(
            lambda: sum(controller.stream("s").aggregator.domains.census.members.values()) == 1
        )
        stream_id = controller.stream("s").id
        await wait_until_async(lambda: [each.writer for each in store.members(stream_id)] == ["a"])
    async with run_controller(store.reopen(), time) as controller:
        await deliver(controller, Note("a", 7))

        assert (names(controller), list_marks(controller)[-1].lower) == (["a"], 7)


async def test_many_departed_writers_are_forgotten_in_parts(
    store: Watched, time: GivenTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next part is forgotten a tick later."""
    monkeypatch.setattr(retention, "FORGOTTEN_AT_ONCE", 2)
    async with serve_stream(store, time, writer_retention_ms=30_000) as controller:
        pods = [f"pod-{number}" for number in range(5)]
        await deliver(controller, Note("a"), *map(Note, pods))
        await deliver(controller, *(Note(pod, state="finished") for pod in pods))
        serve_for(controller, time, maintenance.FORGET_EVERY_MS)

        await wait_until_async(lambda: names(controller) == ["a"])


async def test_downtime_counts_toward_no_writer_retention(store: Watched, time: GivenTime) -> None:
    """Silence is measured on the service clock: a week without a controller does not count."""
    async with serve_stream(store, time, writer_retention_ms=30_000) as controller:
        await deliver(controller, Note("gone"), Note("gone", state="finished"))
    time.passes(604_800_000)
    async with run_controller(store.reopen(), time) as controller:
        controller._clocks.serve()
        time.passes(maintenance.FORGET_EVERY_MS)
        await deliver(controller, Note("a"))

        assert names(controller) == ["gone", "a"]
