"""Retention: streams forget marks by age and by readers, and departed writers."""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from controller.aggregation import operations, retention
from controller.aggregation.operations import ANONYMOUS_ORDER
from controller.service import maintenance
from controller.store.records import LateRecord
from noted_time.rules import Aggregator
from noted_time.values import DAY_MS, LateRows, Mark, Note, StreamSettings
from noted_time.values.settings import ReturningWriter
from tests.support.controllers import (
    GivenTime,
    Watched,
    deliver,
    serve_for,
    serve_stream,
    wait_until_async,
)
from tests.support.kept_stream import KeptStream
from tests.support.scrapes import scrape
from tests.support.streams import advance_all, restart
from tools.trials.memory_store import MemoryStore

STEPS_METRIC = "noted_time_clock_steps_total"


@pytest.mark.usefixtures("whole_log")
async def test_a_wall_clock_far_ahead_deletes_nothing(store: Watched, time: GivenTime) -> None:
    """The marks, ledger, changes and late rows stay, and the steps of the clock are reported."""

    def list_kept() -> tuple[object, ...]:
        stream_state = controller.stream("s")
        marks = [*store.marks(stream_state.id, "default")]
        ledger = store.ledger(stream_state.id, "default", after=0, limit=9)
        changes = store.changes(stream_state.id, before=None, limit=9)
        return marks, ledger, changes, store.load(LateRecord, stream_state.id)

    async with serve_stream(store, time, max_time_ahead_ms=None) as controller:
        await deliver(controller, *(Note("a", lower, {0: 10 * lower}) for lower in range(1, 6)))
        await controller.change("s", operations.suspend_timeout, ANONYMOUS_ORDER, "a", 1000)
        await deliver(
            controller, Note("b"), Note("b", 9), Note("a", 9, late_rows=LateRows(3, 2, 2))
        )
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

        steps_ms = [log_line["by_ms"] for log_line in logs if log_line["event"] == "clock_stepped"]
        assert (list_kept(), steps_ms) == (before, [400 * DAY_MS, -400 * DAY_MS])


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
    for name in names:
        stream.note(Note(name, 5, {0: 1}), 0)
    advance_all(stream)
    for name in names:
        stream.note(Note(name, state="finished"), 0)
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
    times_and_offsets = dict.fromkeys("abc", (0, 0))
    marks: list[Mark] = []
    now = 0
    for writer, more, further, passes, state in history:
        now += passes
        if state == "restart":
            stream = restart(stream, {"default": now})
            continue
        if state != "live" and not is_live(stream, writer):
            continue  # a forgotten writer cannot note that it rests
        time = times_and_offsets[writer][0] + more
        offset = times_and_offsets[writer][1] + further
        times_and_offsets[writer] = time, offset
        position = {"abc".index(writer): offset, 3: time}
        stream.note(Note(writer, time, position, state=state), now)  # type: ignore[arg-type]
        marks += advance_all(stream, now=now)
        stream.expire(now)
        marks += advance_all(stream, now=now)
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


@example(history=OVERTAKEN, returning="wait")
@example(history=LEADERLESS, returning="wait")
@example(history=RETURNED, returning="exclude")
@given(history=steps, returning=st.sampled_from(("hold", "exclude")))
def test_forgotten_writers_change_no_mark(history: list[Step], returning: ReturningWriter) -> None:
    """Lowers, uppers, cuts and names are the same with the shortest retention and without it."""
    forgetting = play_history(history, returning, forgets=True)

    assert forgetting == play_history(history, returning, forgets=False)


def test_forgotten_missing_writer_has_one_copy() -> None:
    """The intervals have it, so the roster has none. If it returns, a mark names its return."""
    kept_stream = KeptStream(
        MemoryStore(), StreamSettings(writer_timeout_ms=9, writer_retention_ms=1)
    )
    kept_stream.note("a", time=5)
    kept_stream.note("b", time=5)
    kept_stream.advance()
    kept_stream.wait(5, expire=False)
    kept_stream.note("a", time=9)
    kept_stream.wait(5, expire=True)
    kept_stream.advance()
    kept_stream.wait(2, expire=False)
    kept_stream.forget()
    roster = kept_stream.stream.aggregator.domains["default"].roster
    copies = (
        [*roster.missing, *roster.forgotten],
        [*kept_stream.stream.missing["default"].open_writers],
    )
    kept_stream.note("b", time=20)
    kept_stream.note("a", time=20)
    kept_stream.advance()

    assert copies == ([], ["b"])
    assert roster.named.returned_writers == ("b",)


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

        await wait_until_async(lambda: [*controller.stream("s").aggregator.writers()] == ["a"])
