"""Reader groups: how many there may be, how long they are remembered, and readers that died."""

import asyncio
from dataclasses import replace

import pytest

from controller.aggregation.draft import Draft, Moment
from controller.aggregation.groups import GroupLimits, ReaderGroups
from controller.service import maintenance
from controller.service.controller import Controller
from controller.store.port import ReaderRecord, Transaction
from noted_time.values import SEGMENTS_PER_POSITION, LimitReached
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    running,
    serve_for,
    serving,
    until,
)
from tests.support.http import Caller, problem

GROUPS = "/v1/streams/s/reader-groups"
DAY_MS = 24 * 60 * 60 * 1000
LIMITS = GroupLimits(groups=2, readers=2, segments=5)


def online(controller: Controller, group: str = "g") -> set[str]:
    """Return the readers of a group that are online."""
    return controller.stream("s").groups[group].readers


def stored(controller: Controller, store: Watched) -> list[tuple[str, str, bool]]:
    """Return the readers in the store: group, reader, whether it is online."""
    readers = store.readers(controller.stream("s").id)
    return [(each.group, each.reader, each.online) for each in readers]


async def test_the_silence_of_a_reader_continues_over_a_restart(
    store: Watched, time: GivenTime
) -> None:
    """Its last report is as durable as its position; time without a controller does not count.

    It goes offline where it was, not a moment before its timeout; one that reports stays online.
    """
    async with serving(store, time, reader_timeout_ms=1000) as controller:
        serve_for(controller, time, 1)
        await controller.report("s", "g", "died", {0: 7})
        await controller.report("s", "g", "lives", {1: 3})
        serve_for(controller, time, 600)
        await controller.put_stream("s", {"mark_interval_ms": 1})  # a commit keeps the clock
    time.passes(DAY_MS)
    again = store.reopened()
    async with running(again, time) as controller:
        # it counts from the first look at its clocks
        await controller.put_stream("s", {"mark_interval_ms": 2})
        serve_for(controller, time, 399)
        await controller.report("s", "g", "lives", {1: 3})
        before = set(online(controller))
        serve_for(controller, time, 1)
        await until(lambda: online(controller) == {"lives"})
        await until(lambda: ("g", "died", False) in stored(controller, again))

        assert before == {"died", "lives"}
        assert controller.stream("s").groups["g"].position == {0: 7, 1: 3}


async def test_a_reader_whose_last_report_has_no_date_counts_from_the_first_look(
    store: Watched, time: GivenTime
) -> None:
    """Those before the column was there; the date is stored, or each restart would move it."""
    async with serving(store, time, reader_timeout_ms=1000) as controller:
        serve_for(controller, time, 5000)
        await controller.report("s", "g", "old", {0: 7})
        (record,) = store.readers(controller.stream("s").id)
    again = store.reopened()
    again.commit(Transaction(readers=[replace(record, reported_at=0)]))
    async with running(again, time) as controller:
        await until(
            lambda: [each.reported_at for each in again.readers(record.stream_id)] == [5000]
        )
        serve_for(controller, time, 999)
        before = set(online(controller))
        serve_for(controller, time, 1)
        await until(lambda: not online(controller))

        assert before == {"old"}


async def test_a_group_is_forgotten_when_no_reader_reported_for_the_retention_of_marks(
    store: Watched, time: GivenTime
) -> None:
    """With its position, in memory and in the store; a group with a reader online stays."""
    async with serving(store, time, mark_retention_ms=100_000) as controller:
        await controller.report("s", "gone", "r", {0: 7})
        await controller.offline("s", "gone", "r", {0: 6})
        await controller.report("s", "stays", "r", {0: 7})
        serve_for(controller, time, maintenance.FORGET_EVERY_MS)
        await controller.put_stream("s", {})
        before = list(controller.stream("s").groups)
        serve_for(controller, time, maintenance.FORGET_EVERY_MS)
        await until(lambda: list(controller.stream("s").groups) == ["stays"])
        await until(lambda: stored(controller, store) == [("stays", "r", True)])

        assert before == ["gone", "stays"]


def fill(limits: GroupLimits, *reports: tuple[str, str, dict[int, int]]) -> ReaderGroups:
    """Return groups that took the reports."""
    groups = ReaderGroups("id")
    for group, reader, position in reports:
        groups.check_room(group, reader, position, limits)
        groups.report(group, reader, position, Draft.at(Moment(0, 0, 0)), now=0)
    return groups


@pytest.mark.parametrize(
    ("report", "what", "limit"),
    [
        (("c", "r", {}), "reader groups of a stream", 2),
        (("a", "t", {}), "readers of a group", 2),
        (("a", "r", {3: 1, 4: 1}), "segments of a stream's reader groups", 5),
    ],
)
def test_what_is_beyond_a_limit_is_refused(
    report: tuple[str, str, dict[int, int]], what: str, limit: int
) -> None:
    """The limit is named, with the remedy; existing groups may keep reporting."""
    there = ("a", "r", {0: 1, 1: 1}), ("a", "s", {2: 1}), ("b", "r", {0: 1})

    with pytest.raises(LimitReached, match=r"remove a group with DELETE") as refused:
        fill(LIMITS, *there, report)
    fill(LIMITS, *there, *there)

    assert (refused.value.what, refused.value.limit) == (what, limit)


async def test_large_reports_do_not_stop_the_loop(memory: WatchedMemory) -> None:
    """They are committed some at a time, as many as take as long as a batch of notes."""
    whole = dict.fromkeys(range(SEGMENTS_PER_POSITION), 1)
    async with serving(memory) as controller:
        before = memory.watch.attempts
        reports = (controller.report("s", "g", f"r{number}", whole) for number in range(100))
        await asyncio.gather(*reports)

        assert memory.watch.attempts - before >= 3


async def test_a_group_can_be_removed(call: Caller) -> None:
    """It is unknown then; a reader that reports on begins a new one."""
    await call.put("/v1/streams/s")
    await call.put(f"{GROUPS}/g/readers/r", {"position": {"0": 5}})
    removed = await call.client.delete(f"{GROUPS}/g")
    again = await call.client.delete(f"{GROUPS}/g")

    assert removed.status_code == 204
    assert problem(again)[:2] == (404, "unknown_reader")
    assert (await call.get(GROUPS)).json()["groups"] == []


def test_a_reader_removed_in_a_draft_is_not_written_by_it() -> None:
    """And one that reports after it was removed is."""
    record = ReaderRecord("id", "g", "r", online=True, position={}, reported_at=1)
    key = ("id", "g", "r")
    removed, back = Draft.at(Moment(0, 0, 0)), Draft.at(Moment(0, 0, 0))
    removed.report([record])
    removed.forget_readers([key])
    back.forget_readers([key])
    back.report([record])

    assert [*removed.finish(), *back.finish()] == []
    assert [(each.batch.readers, each.batch.forgotten_readers) for each in (removed, back)] == [
        ([], [key]),
        ([record], []),
    ]
