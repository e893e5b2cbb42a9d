import asyncio

import pytest

from noted_time import Accepted, Note
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    marks_of,
    running,
    serve_for,
    serving,
    until,
)

INTERVAL_MS = 60


async def test_every_advance_is_marked_at_interval_zero(store: Watched) -> None:
    """Several notes in one request make a mark each, and each answer has the lower of its note."""
    async with serving(store) as controller:
        answers = await deliver(controller, Note("a", 1), Note("a", 2), Note("a", 2), Note("a", 4))

        lowers = [mark.lower for mark in marks_of(controller)]
        assert (answers, lowers) == (
            [Accepted(1), Accepted(2), Accepted(2), Accepted(4)],
            [1, 2, 4],
        )


async def test_a_batch_of_writers_is_marked_as_if_noted_one_by_one(memory: Watched) -> None:
    """At interval zero no advance is skipped because others came in the same request."""
    async with serving(memory) as controller:
        await deliver(controller, Note("a"), Note("b"), Note("c"))
        await deliver(
            controller, Note("a", 3), Note("b", 1), Note("c", 2), Note("b", 9), Note("c", 5)
        )

        assert [mark.lower for mark in marks_of(controller)] == [1, 2, 3]


async def test_marks_keep_the_interval(memory: Watched, time: GivenTime) -> None:
    """Advances within the interval wait, and one mark at its end takes them all."""
    async with serving(memory, time, mark_interval_ms=INTERVAL_MS) as controller:
        for noted in range(1, 8):
            await deliver(controller, Note("a", noted, {0: noted}))
            time.passes(10)
        await asyncio.sleep(2 * INTERVAL_MS / 1000)

        marks = [(mark.lower, dict(mark.cut.offsets)) for mark in marks_of(controller)]
        assert marks == [(1, {0: 1}), (7, {0: 7})]


async def test_what_waited_for_the_interval_is_marked_without_another_note(
    memory: Watched, time: GivenTime
) -> None:
    """The last note of a burst gets its mark without another call."""
    async with serving(memory, time, mark_interval_ms=INTERVAL_MS) as controller:
        await deliver(controller, Note("a", 1))
        await deliver(controller, Note("a", 2))
        time.passes(INTERVAL_MS)
        await until(lambda: len(marks_of(controller)) == 2)

        assert [mark.lower for mark in marks_of(controller)] == [1, 2]


async def test_marks_keep_the_interval_over_a_restart(store: Watched, time: GivenTime) -> None:
    """The first mark of a new process is not closer than the interval to the last before it."""
    async with serving(store, time, mark_interval_ms=1000) as controller:
        await deliver(controller, Note("a", 1))
        await deliver(controller, Note("a", 2))
    time.steady = 77
    time.wall += 400
    async with running(store.reopened(), time) as controller:
        await deliver(controller, Note("a", 3))
        early = len(marks_of(controller))
        time.passes(600)
        await until(lambda: len(marks_of(controller)) == 2)

        written = [mark.written_at for mark in marks_of(controller)]
        assert (early, written[1] - written[0]) == (1, 1000)


async def test_a_wall_clock_that_went_back_delays_marks_by_one_interval_only(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """After a restart an hour in the past, time advances within the interval."""
    async with serving(memory, time, mark_interval_ms=INTERVAL_MS) as controller:
        await deliver(controller, Note("a", 1))
    time.wall -= 3_600_000
    async with running(memory.reopened(), time) as controller:
        await deliver(controller, Note("a", 2))
        time.passes(INTERVAL_MS)
        await until(lambda: len(marks_of(controller)) == 2)

        assert [mark.lower for mark in marks_of(controller)] == [1, 2]


async def test_a_clock_that_cannot_be_read_fails_nothing(
    memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python reads none beyond the year 2262: its last reading stands until the clock is right."""

    def too_large() -> int:
        raise OverflowError("timestamp too large")

    async with serving(memory, mark_interval_ms=0) as controller:
        await deliver(controller, Note("a", 5))
        with monkeypatch.context() as patched:
            patched.setattr("controller.service.clocks.time.time_ns", too_large)
            during = await deliver(controller, Note("a", 6))
        after = await deliver(controller, Note("a", 7))
        written = [mark.written_at for mark in marks_of(controller)]

    assert ([*during, *after], written[0] == written[1] <= written[2]) == (
        [Accepted(6), Accepted(7)],
        True,
    )


async def test_a_shorter_interval_takes_effect_at_once(memory: Watched, time: GivenTime) -> None:
    """Setting the interval to zero marks what had been waiting."""
    async with serving(memory, time, mark_interval_ms=60_000) as controller:
        await deliver(controller, Note("a", 1))
        await deliver(controller, Note("a", 2))
        await controller.put_stream("s", {"mark_interval_ms": 0})

        assert [mark.lower for mark in marks_of(controller)] == [1, 2]


async def test_an_added_domain_begins_with_all_members_holding(store: Watched) -> None:
    """A domain added later is marked once every live member has noted it, also after a restart."""
    async with serving(store) as controller:
        await deliver(controller, Note("a", 5), Note("b", 6))
        await controller.put_stream("s", {"domains": ("default", "late")})
        await deliver(controller, Note("a", 50, domain="late"))
        early = len(marks_of(controller, "late"))
    async with running(store.reopened()) as controller:
        await deliver(controller, Note("b", 60, domain="late"))

        assert (early, [m.lower for m in marks_of(controller, "late")]) == (0, [50])


async def test_old_marks_are_forgotten(store: Watched, time: GivenTime) -> None:
    """Marks older than the retention go, from memory and from the store, but never the last."""
    async with serving(store, time, mark_retention_ms=90_000) as controller:
        for noted in (1, 2, 3):
            await deliver(controller, Note("a", noted))
            serve_for(controller, time, 40_000)
        await until(lambda: marks_of(controller)[0].seq > 1)
        stream_id = controller.stream("s").id
        stored = [kept.mark for kept in store.marks(stream_id, "default")]

        assert (stored, [m.seq for m in stored]) == (marks_of(controller), [2, 3])
