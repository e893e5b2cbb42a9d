"""Which marks go: by age, as far as all readers are past, and where the stream begins later."""

import asyncio

import pytest

from controller.aggregation import operator
from controller.aggregation.operator import ANONYMOUS
from controller.service import maintenance
from controller.service.controller import Controller
from noted_time import Note, ScaleEvent, TimeWindow
from noted_time.values import DAY_MS
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
from tests.support.http import Caller

HOUR_MS = 60 * 60 * 1000
TRUNCATE = "/v1/streams/s/truncate"


async def made(controller: Controller, upto: int = 5) -> None:
    """Make marks with seq and lower 1, 2, 3 … at ten times as many events of segment 0."""
    await deliver(controller, *(Note("a", seq, {0: 10 * seq}) for seq in range(1, upto + 1)))


def seqs(controller: Controller, domain: str = "default") -> list[int]:
    """Return the seqs of the marks in memory."""
    return [mark.seq for mark in marks_of(controller, domain)]


async def retained(controller: Controller, time: GivenTime, first: int) -> None:
    """Serve until the marks were forgotten by age; the first one kept must be `first`."""
    await asyncio.sleep(0)  # a controller just started begins to count from its first turn
    serve_for(controller, time, maintenance.FORGET_EVERY_MS)
    await until(lambda: seqs(controller)[0] == first)


async def test_marks_that_a_reader_online_has_to_pass_are_kept(
    store: Watched, time: GivenTime
) -> None:
    """The one its lower comes from and all later, in memory and in the store; the others go."""
    async with serving(store, time, mark_retention_ms=0) as controller:
        await controller.report("s", "g", "r", {0: 25})
        await made(controller)
        await retained(controller, time, first=2)
        stream = controller.stream("s")
        stored = [kept.mark.seq for kept in store.marks(stream.id, "default")]

        assert (seqs(controller), stored, stream.window({0: 25}, None)) == (
            [2, 3, 4, 5],
            [2, 3, 4, 5],
            TimeWindow(2, 3, 2, 3),
        )


async def test_the_slowest_group_decides(memory: WatchedMemory, time: GivenTime) -> None:
    """Each group has its own position."""
    async with serving(memory, time, mark_retention_ms=0) as controller:
        for group, offset in (("fast", 50), ("slow", 30)):
            await controller.report("s", group, "r", {0: offset})
        await made(controller)
        await retained(controller, time, first=3)

        assert seqs(controller) == [3, 4, 5]


async def test_a_group_without_a_reader_online_keeps_nothing(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """A reader that stopped in order reports it; or its group would keep the marks for ever."""
    async with serving(memory, time, mark_retention_ms=0) as controller:
        await controller.report("s", "g", "r", {0: 25})
        await controller.offline("s", "g", "r", {0: 25})
        await made(controller)
        await retained(controller, time, first=5)

        assert seqs(controller) == [5]


async def test_a_reader_before_the_first_mark_keeps_them_all(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """It has to pass every one; only when it has, the old ones go."""
    async with serving(memory, time, mark_retention_ms=0) as controller:
        await controller.report("s", "g", "r", {})
        await made(controller)
        serve_for(controller, time, 2 * maintenance.FORGET_EVERY_MS)
        await deliver(controller, Note("a", 6, {0: 60}))
        before = seqs(controller)
        await controller.report("s", "g", "r", {0: 40})
        await retained(controller, time, first=4)

        assert (before, seqs(controller)) == ([1, 2, 3, 4, 5, 6], [4, 5, 6])


async def test_readers_known_before_a_restart_keep_their_marks(
    store: Watched, time: GivenTime
) -> None:
    """Readers' states are as durable as the marks."""
    async with serving(store, time, mark_retention_ms=0) as controller:
        await controller.report("s", "g", "r", {0: 25})
        await made(controller)
    async with running(store.reopened(), time) as controller:
        await retained(controller, time, first=2)

        assert seqs(controller) == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("cut", "kept"),
    [(0, [1, 2, 3, 4, 5]), (10, [1, 2, 3, 4, 5]), (29, [2, 3, 4, 5]), (30, [3, 4, 5]), (99, [5])],
)
async def test_marks_before_the_one_a_reader_at_the_cut_needs_go(
    store: Watched, cut: int, kept: list[int]
) -> None:
    """In memory and in the store; never the last one, however far the cut."""
    async with serving(store) as controller:
        await made(controller)
        stream, _ = await controller.change("s", operator.truncate, ANONYMOUS, {0: cut})
        stored = [each.mark.seq for each in store.marks(stream.id, "default")]

        assert (seqs(controller), stored) == (kept, kept)


async def test_a_reader_at_the_cut_has_the_window_it_had(memory: WatchedMemory) -> None:
    """Only what no reader from there on needs is dropped."""
    async with serving(memory) as controller:
        await made(controller)
        stream = controller.stream("s")
        before = [stream.window({0: offset}, None) for offset in (30, 35, 50)]
        await controller.change("s", operator.truncate, ANONYMOUS, {0: 30})
        after = [stream.window({0: offset}, None) for offset in (30, 35, 50)]

        assert after == before


async def test_a_cut_that_crosses_a_mark_does_not_reach_it(memory: WatchedMemory) -> None:
    """A missing segment counts as read to 0."""
    async with serving(memory) as controller:
        await made(controller, upto=2)
        await deliver(controller, Note("a", 3, {0: 30, 1: 5}), Note("a", 4, {0: 40, 1: 6}))
        await controller.change("s", operator.truncate, ANONYMOUS, {0: 1000, 1: 5})

        assert seqs(controller) == [3, 4]


async def test_a_cut_that_names_a_successor_has_passed_its_predecessors(
    memory: WatchedMemory,
) -> None:
    """It is completed as every position is."""
    async with serving(memory) as controller:
        await made(controller, upto=3)
        await controller.change("s", operator.scale, ANONYMOUS, ScaleEvent({0: 30}, {1: (0,)}))
        await controller.change("s", operator.truncate, ANONYMOUS, {1: 0})

        assert seqs(controller) == [3]


async def test_truncation_answers_the_stream(call: Caller) -> None:
    """With its last marks, as it is read by GET, and with the outcome for them."""
    await call.note(*({"writer": "a", "time": t, "position": {"0": t}} for t in (1, 2, 3)))

    answer = await call.post(TRUNCATE, {"cut": {"0": 2}})

    stream = (await call.get("/v1/streams/s")).json()
    did = {"beyond": False, "dropped": {"default": 1}}
    assert (answer.status_code, answer.json()) == (200, stream | did)
    marks = (await call.get("/v1/streams/s/marks")).json()["marks"]
    assert [mark["seq"] for mark in marks] == [2, 3]


@pytest.mark.parametrize(("hours", "dropped"), [(5, 0), (4, 1), (2, 3), (1, 4), (0, 4)])
async def test_the_dry_run_of_a_shorter_retention_counts_the_marks_that_then_go(
    memory: WatchedMemory, time: GivenTime, hours: int, dropped: int
) -> None:
    """Five marks, an hour apart: never the last one. The dry run changes nothing."""
    async with serving(memory, time, mark_retention_ms=DAY_MS) as controller:
        for seq in range(1, 6):
            await deliver(controller, Note("a", seq, {0: 10 * seq}))
            time.wall += HOUR_MS
        time.wall -= HOUR_MS // 2
        changes = {"mark_retention_ms": hours * HOUR_MS}
        found = controller.stream("s")
        does = operator.reconfiguration(found, changes, time.wall)
        before = seqs(controller)
        await controller.put_stream("s", changes)
        await retained(controller, time, first=1 + dropped)

        assert (before, does) == ([1, 2, 3, 4, 5], {"default": dropped})


async def test_a_retention_that_is_not_shortened_drops_nothing(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """Marks that are about to go anyway are none that the change would drop."""
    async with serving(memory, time, mark_retention_ms=2000) as controller:
        await made(controller)
        time.wall += DAY_MS
        found = controller.stream("s")
        kept = {"mark_retention_ms": 2000, "mark_interval_ms": 5}
        does = [operator.reconfiguration(found, each, time.wall) for each in ({}, kept)]

        assert does == [{"default": 0}, {"default": 0}]


async def test_marks_that_an_online_reader_needs_are_not_counted_as_dropped(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """They stay, whatever the retention."""
    async with serving(memory, time, mark_retention_ms=DAY_MS) as controller:
        await controller.report("s", "g", "r", {0: 25})
        await made(controller)
        time.wall += 1000
        found = controller.stream("s")

        assert operator.reconfiguration(found, {"mark_retention_ms": 0}, time.wall) == {
            "default": 1
        }


async def test_a_dry_run_of_settings_answers_the_stream_as_it_is(
    call: Caller, time: GivenTime
) -> None:
    """With how many marks of each domain would be dropped; the settings stay."""
    await call.note(*({"writer": "a", "time": t, "position": {"0": t}} for t in (1, 2, 3)))
    stream = (await call.get("/v1/streams/s")).json()
    time.passes(1)

    asked = {"mark_retention_ms": 0}
    answer = await call.put("/v1/streams/s?dry_run=true", asked)
    unknown = await call.put("/v1/streams/nope?dry_run=true", asked)

    assert (answer.status_code, answer.json()) == (200, stream | {"dropped": {"default": 2}})
    assert (await call.get("/v1/streams/s")).json() == stream
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_stream")
