"""Reader groups: limits, retention, and backlogs."""

import asyncio

import pytest

from controller.aggregation import operations
from controller.aggregation.draft import Draft, Moment
from controller.aggregation.group_backlog import GroupBacklog
from controller.aggregation.groups import GroupLimits, OwnBacklog, ReaderGroups
from controller.aggregation.operations import ANONYMOUS_ORDER
from controller.service import maintenance
from controller.service.controller import Controller
from controller.store.records import BacklogRecord, ChangeSet, ReaderRecord
from noted_time import BacklogPolicy
from noted_time.answers import Cause
from noted_time.values import DAY_MS, SEGMENTS_PER_POSITION, LimitReached, Note, UnknownReader
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    run_controller,
    serve_for,
    serve_stream,
    wait_until_async,
)

LIMITS = GroupLimits(groups=2, readers=2, segments=5)


def online(controller: Controller, group: str = "g") -> set[str]:
    return controller.stream("s").groups[group].readers


def list_stored(controller: Controller, store: Watched) -> list[tuple[str, str, bool]]:
    """Return the stored readers: group, reader, whether it is online."""
    readers = store.load(ReaderRecord, controller.stream("s").id)
    return [(each.group, each.reader, each.online) for each in readers]


async def test_reader_timeout_continues_after_restart(store: Watched, time: GivenTime) -> None:
    """Time without a controller does not count."""
    async with serve_stream(store, time, reader_timeout_ms=1000) as controller:
        serve_for(controller, time, 1)
        await controller.report("s", "g", "died", {0: 7})
        await controller.report("s", "g", "lives", {1: 3})
        serve_for(controller, time, 600)
        await controller.put_stream("s", {"mark_interval_ms": 1})  # a commit keeps the clock
    time.passes(DAY_MS)
    again = store.reopen()
    async with run_controller(again, time) as controller:
        # it counts from the first look at its clocks
        await controller.put_stream("s", {"mark_interval_ms": 2})
        serve_for(controller, time, 399)
        await controller.report("s", "g", "lives", {1: 3})
        before = set(online(controller))
        serve_for(controller, time, 1)
        await wait_until_async(lambda: online(controller) == {"lives"})
        await wait_until_async(lambda: ("g", "died", False) in list_stored(controller, again))

        assert before == {"died", "lives"}
        assert controller.stream("s").groups["g"].position == {0: 7, 1: 3}


async def test_group_without_reports_is_forgotten_after_retention(
    store: Watched, time: GivenTime
) -> None:
    """A group with an online reader stays."""
    async with serve_stream(store, time, mark_retention_ms=100_000) as controller:
        await controller.report("s", "gone", "r", {0: 7})
        await controller.offline("s", "gone", "r", {0: 6})
        await controller.report("s", "stays", "r", {0: 7})
        serve_for(controller, time, maintenance.FORGET_EVERY_MS)
        await controller.put_stream("s", {})
        before = list(controller.stream("s").groups)
        serve_for(controller, time, maintenance.FORGET_EVERY_MS)
        await wait_until_async(lambda: list(controller.stream("s").groups) == ["stays"])
        await wait_until_async(lambda: list_stored(controller, store) == [("stays", "r", True)])

        assert before == ["gone", "stays"]


def fill(limits: GroupLimits, *reports: tuple[str, str, dict[int, int]]) -> ReaderGroups:
    groups = ReaderGroups("id")
    for group, reader, position in reports:
        groups.check_room(group, reader, position, limits)
        groups.report(group, reader, position, Draft(Moment(0, 0, 0)), now=0)
    return groups


@pytest.mark.parametrize(
    ("report", "what", "limit", "remedy"),
    [
        (("c", "r", {}), "reader groups of a stream", 2, ""),
        (("a", "t", {}), "readers of a group", 2, "let readers report under the same names"),
        (("a", "r", {3: 1, 4: 1}), "segments of a stream's reader groups", 5, ""),
    ],
)
def test_report_beyond_limit_is_refused(
    report: tuple[str, str, dict[int, int]], what: str, limit: int, remedy: str
) -> None:
    """Existing groups may keep reporting."""
    there = ("a", "r", {0: 1, 1: 1}), ("a", "s", {2: 1}), ("b", "r", {0: 1})

    with pytest.raises(LimitReached, match=rf"{remedy}.*remove a group with DELETE") as refused:
        fill(LIMITS, *there, report)
    fill(LIMITS, *there, *there)

    assert (refused.value.what, refused.value.limit) == (what, limit)


async def test_large_reports_do_not_stop_loop(memory: WatchedMemory) -> None:
    """Large reports are committed in parts."""
    whole = dict.fromkeys(range(SEGMENTS_PER_POSITION), 1)
    async with serve_stream(memory) as controller:
        before = memory.watch.attempts
        reports = (controller.report("s", "g", f"r{number}", whole) for number in range(100))
        await asyncio.gather(*reports)

        assert memory.watch.attempts - before >= 3


def test_reader_dropped_after_its_report_is_not_written() -> None:
    record = ReaderRecord("id", "g", "r", online=True, position={}, reported_at=1)
    dropped, back = ChangeSet(record), ChangeSet()
    dropped.drop(ReaderRecord, *record.key)
    back.drop(ReaderRecord, *record.key)
    back.put(record)

    written = [[*each.list_puts(ReaderRecord)] for each in (dropped, back)]
    assert written == [[], [record]]


WALL = 1_700_000_000_000

BEHIND = BacklogPolicy(behind_ms=1000)

Found = tuple[bool, tuple[Cause, ...], int | None]


async def read_backlog(controller: Controller, group: str = "g") -> Found:
    """Return the backlog of a group, its reasons, and since when."""
    now = await controller.backlog("s", group)
    return now.backlog, now.because, None if now.since is None else now.since - WALL


async def note_times(controller: Controller, *times: int) -> None:
    """Note these times, at offsets of ten times their index."""
    for number, time in enumerate(times, 1):
        await deliver(controller, Note("a", time, {0: 10 * number}))


async def test_unused_group_has_no_backlog_and_no_record(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        await note_times(controller, 1000, 9000)
        await controller.report("s", "g", "r", {0: 10})

        assert await controller.backlog("s", "g") == GroupBacklog()
        assert memory.load(BacklogRecord, controller.stream("s").id) == []


async def test_backlog_survives_restart(store: Watched, time: GivenTime) -> None:
    async with serve_stream(store, time) as controller:
        await note_times(controller, 1000, 9000)
        await controller.report("s", "g", "r", {0: 10}, own=OwnBacklog(True))  # noqa: FBT003
        for group in "gh":
            await controller.change(
                "s", operations.set_backlog_policy, ANONYMOUS_ORDER, group, BEHIND
            )
        before = [await read_backlog(controller, group) for group in "gh"]
    time.passes(60_000)
    async with run_controller(store.reopen(), time) as controller:
        after = [await read_backlog(controller, group) for group in "gh"]

    behind = Cause("behind", "default")
    assert before == [(True, (Cause("reported", reader="r"), behind), 0), (True, (behind,), 0)]
    assert after == before


async def test_group_that_caught_up_stays_so_by_sticky_rule(
    store: Watched, time: GivenTime
) -> None:
    """The state is stored before it is reported. Another policy starts again."""
    async with serve_stream(store, time) as controller:
        await note_times(controller, 1000)
        await controller.change(
            "s",
            operations.set_backlog_policy,
            ANONYMOUS_ORDER,
            "g",
            BacklogPolicy(None, 1000, "sticky"),
        )
        states = [await read_backlog(controller)]
        await controller.report("s", "g", "r", {0: 10})
        states.append(await read_backlog(controller))
        await deliver(controller, Note("a", 9000, {0: 20}))
    async with run_controller(store.reopen(), time) as controller:
        states.append(await read_backlog(controller))
        await controller.change("s", operations.set_backlog_policy, ANONYMOUS_ORDER, "g", BEHIND)
        states.append(await read_backlog(controller))

    assert [flag for flag, _, _ in states] == [True, False, False, True]


async def test_group_with_policy_is_removed_by_operators_only(
    store: Watched, time: GivenTime
) -> None:
    async with serve_stream(store, time, mark_retention_ms=0) as controller:
        await controller.change("s", operations.set_backlog_policy, ANONYMOUS_ORDER, "kept", BEHIND)
        for group in ("kept", "unused"):
            await controller.report("s", group, "r", {0: 1})
            await controller.offline("s", group, "r", {})
        serve_for(controller, time, maintenance.FORGET_EVERY_MS)
        await wait_until_async(lambda: len(controller.stream("s").groups) == 1)
        kept = [record.group for record in store.load(BacklogRecord, controller.stream("s").id)]
        await controller.remove_group("s", "kept")

        assert kept == ["kept"]
        assert store.load(BacklogRecord, controller.stream("s").id) == []
        with pytest.raises(UnknownReader):
            await controller.backlog("s", "kept")


async def test_unchanged_backlog_needs_no_commit(memory: WatchedMemory) -> None:
    """Readers ask twice a second."""
    async with serve_stream(memory) as controller:
        await note_times(controller, 1000, 9000)
        await controller.change("s", operations.set_backlog_policy, ANONYMOUS_ORDER, "g", BEHIND)
        await read_backlog(controller)
        attempts = memory.watch.attempts
        await asyncio.gather(*(read_backlog(controller) for _ in range(5)))

        assert memory.watch.attempts == attempts
