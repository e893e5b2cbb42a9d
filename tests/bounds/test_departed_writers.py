"""Writers that are gone are forgotten after the writer retention, and nothing else changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.service import maintenance
from controller.service.controller import Controller
from noted_time import Accepted, Aggregator, Mark, Note, StreamSettings
from noted_time.values import State
from noted_time.values.settings import ReturningWriter
from tests.support.controllers import (
    GivenTime,
    Watched,
    deliver,
    marks_of,
    running,
    serve_for,
    serving,
    until,
)
from tests.support.streams import deliver as tell_stream
from tests.support.streams import marks_of as marks_of_stream
from tests.support.streams import restarted

RETENTION_MS = 1000
MANY = 100


def stream_with(*notes: Note, domains: tuple[str, ...] = ("default",)) -> Aggregator:
    """Return a stream that received the notes, each with all the marks that follow from it.

    A writer that only notes that it rests joined before.
    """
    stream = Aggregator(
        StreamSettings(writer_timeout_ms=10, writer_retention_ms=RETENTION_MS, domains=domains)
    )
    for note in notes:
        if note.writer not in stream and note.state != "live":
            stream.note(Note(note.writer), now=0)
        stream.note(note, now=0)
        marks_of_stream(stream)
    return stream


def test_a_writer_that_left_is_forgotten_after_the_retention() -> None:
    """To the millisecond, and all that it wrote is below the last mark's cut."""
    stream = stream_with(Note("a", 5, {0: 1}), Note("gone", state="finished"), Note("a", 6))

    forgotten = [stream.forget_departed(now, MANY) for now in (999, 1000, 1001)]

    assert (forgotten, list(stream.writers())) == ([(), ("gone",), ()], ["a"])


def test_a_sign_of_life_restarts_the_retention() -> None:
    """To repeat that a writer left is a sign of life."""
    stream = stream_with(Note("gone", state="finished"))
    stream.note(Note("gone", state="finished"), now=700)

    forgotten = [stream.forget_departed(now, MANY) for now in (1000, 1699, 1700)]

    assert forgotten == [(), (), ("gone",)]


@pytest.mark.parametrize("state", ["live", "idle"])
def test_a_writer_that_may_return_is_never_forgotten(state: State) -> None:
    """Neither one that is waited for nor one that is idle, however long."""
    stream = stream_with(Note("finished", state="finished"), Note("finished", state=state))

    assert (stream.forget_departed(10**9, MANY), len(stream)) == ((), 1)


def test_a_writer_excluded_is_forgotten_once_a_mark_has_named_it() -> None:
    """Before that, no reader would learn that time advanced without it."""
    stream = stream_with(Note("silent", 5), Note("a", 5), Note("a", 6))
    stream.expire(now=10)
    before = stream.forget_departed(5000, MANY)
    marks = marks_of_stream(stream)
    after = stream.forget_departed(5000, MANY)

    assert (before, [mark.excluded for mark in marks], after) == ((), [("silent",)], ("silent",))


def test_a_writer_is_kept_for_each_domain_that_has_to_cover_it() -> None:
    """The marks of one domain mean nothing for another."""
    stream = Aggregator(StreamSettings(writer_retention_ms=RETENTION_MS, domains=("x", "y")))
    tell_stream(
        stream,
        Note("a", 5, domain="x"),
        Note("gone"),
        Note("gone", 5, {0: 1}, domain="x", state="finished"),
    )
    marks_of_stream(stream, "x")
    before = stream.forget_departed(5000, MANY)
    tell_stream(stream, Note("a", 5, domain="y"), Note("a", 6, domain="x"))
    marks = [marks_of_stream(stream, domain) for domain in ("x", "y")]

    assert (before, [len(each) for each in marks], stream.forget_departed(5000, MANY)) == (
        (),
        [1, 1],
        ("gone",),
    )


def test_a_writer_that_comes_back_is_new() -> None:
    """Its earlier notes no longer count: it may start again."""
    stream = stream_with(Note("a", 5), Note("gone", 5, {0: 9}), Note("gone", state="finished"))
    stream.note(Note("a", 6), now=0)
    marks_of_stream(stream)
    forgotten = stream.forget_departed(5000, MANY)

    answer = stream.note(Note("gone", 1, {0: 2}), now=5000)

    assert (forgotten, answer, stream.record("gone").position) == (("gone",), Accepted(6), {0: 2})


def test_no_more_writers_go_at_once_than_asked_for() -> None:
    """The others go the next time."""
    stream = stream_with(*(Note(f"w{i}", state="finished") for i in range(5)))

    counts = [len(stream.forget_departed(5000, 2)) for _ in range(4)]

    assert counts == [2, 2, 1, 0]


def test_a_retention_of_gone_writers_continues_after_a_restart() -> None:
    """A writer that left before is known to have left."""
    stream = restarted(stream_with(Note("gone", state="finished")))

    assert stream.forget_departed(1000, MANY) == ("gone",)


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


def lived(history: list[Step], returning: ReturningWriter, *, forgets: bool) -> list[Mark]:
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
            stream = restarted(stream, {"default": now})
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


@given(history=steps, returning=st.sampled_from(("hold", "exclude")))
def test_to_forget_changes_no_mark(history: list[Step], returning: ReturningWriter) -> None:
    """With the retention at its shortest, lowers, uppers, cuts and names are as without it."""
    forgetting = lived(history, returning, forgets=True)

    assert forgetting == lived(history, returning, forgets=False)


def names(controller: Controller) -> list[str]:
    """Return the writers that the controller knows."""
    return list(controller.stream("s").aggregator.writers())


async def test_gone_writers_go_from_memory_and_from_the_store(
    store: Watched, time: GivenTime
) -> None:
    """And time advances, before and after a restart."""
    async with serving(store, time, writer_retention_ms=30_000) as controller:
        await deliver(
            controller, Note("a", 5), Note("gone", 5, {0: 1}), Note("gone", state="finished")
        )
        await deliver(controller, Note("a", 6))
        serve_for(controller, time, maintenance.FORGET_EVERY_MS)
        await until(lambda: names(controller) == ["a"])
        await until(
            lambda: sum(controller.stream("s").aggregator.domains.census.members.values()) == 1
        )
        stream_id = controller.stream("s").id
        await until(lambda: [each.writer for each in store.members(stream_id)] == ["a"])
    async with running(store.reopened(), time) as controller:
        await deliver(controller, Note("a", 7))

        assert (names(controller), marks_of(controller)[-1].lower) == (["a"], 7)


async def test_downtime_forgets_no_writer(store: Watched, time: GivenTime) -> None:
    """Silence is measured on the service clock: a week without a controller does not count."""
    async with serving(store, time, writer_retention_ms=30_000) as controller:
        await deliver(controller, Note("gone"), Note("gone", state="finished"))
    time.passes(604_800_000)
    async with running(store.reopened(), time) as controller:
        controller._clocks.serve()
        time.passes(maintenance.FORGET_EVERY_MS)
        await deliver(controller, Note("a"))

        assert names(controller) == ["gone", "a"]
