"""Reader groups: limits, retention, and backlogs."""

import asyncio

import pytest

from controller.aggregation import operations
from controller.aggregation.draft import Draft, Moment
from controller.aggregation.group_backlog import GroupBacklog
from controller.aggregation.groups import GroupLimits, ReaderGroups
from controller.aggregation.operations import ANONYMOUS_ORDER
from controller.service.controller import Controller
from controller.store.records import BacklogRecord
from noted_time import BacklogPolicy
from noted_time.values import SEGMENTS_PER_POSITION, LimitReached, Note
from tests.support.controllers import WatchedMemory, deliver, serve_stream

LIMITS = GroupLimits(groups=2, readers=2, segments=5)


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
    reports = ("a", "r", {0: 1, 1: 1}), ("a", "s", {2: 1}), ("b", "r", {0: 1})

    with pytest.raises(LimitReached, match=rf"{remedy}.*remove a group with DELETE") as refusal:
        fill(LIMITS, *reports, report)
    fill(LIMITS, *reports, *reports)

    assert (refusal.value.what, refusal.value.limit) == (what, limit)


async def test_large_reports_do_not_stop_loop(memory: WatchedMemory) -> None:
    """Large reports are committed in parts."""
    position = dict.fromkeys(range(SEGMENTS_PER_POSITION), 1)
    async with serve_stream(memory) as controller:
        before = memory.watch.attempts
        reports = (controller.report("s", "g", f"r{number}", position) for number in range(100))
        await asyncio.gather(*reports)

        assert memory.watch.attempts - before >= 3


async def note_two_times(controller: Controller) -> None:
    await deliver(controller, Note("a", 1000, {0: 10}))
    await deliver(controller, Note("a", 9000, {0: 20}))


async def test_unused_group_has_no_backlog_and_no_record(memory: WatchedMemory) -> None:
    async with serve_stream(memory) as controller:
        await note_two_times(controller)
        await controller.report("s", "g", "r", {0: 10})

        assert await controller.backlog("s", "g") == GroupBacklog()
        assert memory.load(BacklogRecord, controller.stream("s").id) == []


async def test_unchanged_backlog_needs_no_commit(memory: WatchedMemory) -> None:
    """Readers ask twice a second."""
    policy = BacklogPolicy(reader_lag_ms=1000)
    async with serve_stream(memory) as controller:
        await note_two_times(controller)
        await controller.change("s", operations.set_backlog_policy, ANONYMOUS_ORDER, "g", policy)
        await controller.backlog("s", "g")
        attempts = memory.watch.attempts
        await asyncio.gather(*(controller.backlog("s", "g") for _ in range(5)))

        assert memory.watch.attempts == attempts
