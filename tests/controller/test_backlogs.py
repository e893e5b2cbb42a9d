"""The backlogs of reader groups: what is found, since when, and what outlasts a restart."""

import asyncio

import pytest

from controller.aggregation import operator
from controller.aggregation.group_backlog import Cause, GroupBacklog
from controller.aggregation.groups import OwnBacklog
from controller.aggregation.operator import ANONYMOUS, Order
from controller.service import maintenance
from controller.service.controller import Controller
from noted_time import BacklogPolicy, Note
from noted_time.values import UnknownReader
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    running,
    serve_for,
    serving,
    until,
)
from tests.support.scrapes import scraped

WALL = 1_700_000_000_000
BEHIND = BacklogPolicy(behind_ms=1000)
Found = tuple[bool, tuple[Cause, ...], int | None]


async def found(controller: Controller, group: str = "g") -> Found:
    """Return whether the group has a backlog, why, and since when from the first moment on."""
    now = await controller.backlog("s", group)
    return now.backlog, now.because, None if now.since is None else now.since - WALL


async def noted(controller: Controller, *times: int) -> None:
    """Note these times, each at ten times its number among them."""
    for number, time in enumerate(times, 1):
        await deliver(controller, Note("a", time, {0: 10 * number}))


async def test_a_group_is_behind_until_its_lower_comes_near_the_last(
    store: Watched, time: GivenTime
) -> None:
    """Also before it has a lower; the moment is that of the look that found it."""
    async with serving(store, time) as controller:
        await noted(controller, 1000, 2000, 3001)
        await controller.change("s", operator.set_backlog_policy, ANONYMOUS, "g", BEHIND)
        states = [await found(controller)]
        for offset in (10, 20, 30):
            time.passes(7)
            await controller.report("s", "g", "r", {0: offset})
            states.append(await found(controller))

    behind = (Cause("behind", "default"),)
    assert states == [(True, behind, 0), (True, behind, 0), (True, behind, 0), (False, (), 21)]


async def test_readers_may_report_a_backlog_without_a_policy(
    store: Watched, time: GivenTime
) -> None:
    """All of those online that do are named, as long as they do."""
    said = [("a", OwnBacklog(True)), ("b", OwnBacklog(True)), ("a", None), ("a", OwnBacklog(False))]  # noqa: FBT003
    async with serving(store, time) as controller:
        states = []
        for reader, own in said:
            await controller.report("s", "g", reader, {}, own=own)
            states.append([cause.reader for cause in (await found(controller))[1]])
        await controller.offline("s", "g", "b", {})
        states.append([cause.reader for cause in (await found(controller))[1]])

    assert states == [["a"], ["a", "b"], ["a", "b"], ["b"], []]


async def test_a_group_that_was_never_asked_for_has_no_backlog_and_leaves_no_record(
    memory: WatchedMemory,
) -> None:
    """However far behind it is."""
    async with serving(memory) as controller:
        await noted(controller, 1000, 9000)
        await controller.report("s", "g", "r", {0: 10})

        assert await controller.backlog("s", "g") == GroupBacklog()
        assert memory.backlogs(controller.stream("s").id) == []


async def test_policy_flag_and_reports_outlast_a_restart(store: Watched, time: GivenTime) -> None:
    """Since when is what it was; a group without a reader is there again, too."""
    async with serving(store, time) as controller:
        await noted(controller, 1000, 9000)
        await controller.report("s", "g", "r", {0: 10}, own=OwnBacklog(True))  # noqa: FBT003
        for group in "gh":
            await controller.change("s", operator.set_backlog_policy, ANONYMOUS, group, BEHIND)
        before = [await found(controller, group) for group in "gh"]
    time.passes(60_000)
    async with running(store.reopened(), time) as controller:
        after = [await found(controller, group) for group in "gh"]

    behind = Cause("behind", "default")
    assert before == [(True, (Cause("told", reader="r"), behind), 0), (True, (behind,), 0)]
    assert after == before


async def test_a_group_that_caught_up_by_the_sticky_rule_has_for_good(
    store: Watched, time: GivenTime
) -> None:
    """Over a restart too: it is stored before it is reported. Another policy starts again."""
    async with serving(store, time) as controller:
        await noted(controller, 1000)
        await controller.change(
            "s", operator.set_backlog_policy, ANONYMOUS, "g", BacklogPolicy(None, 1000, "sticky")
        )
        states = [await found(controller)]
        await controller.report("s", "g", "r", {0: 10})
        states.append(await found(controller))
        await deliver(controller, Note("a", 9000, {0: 20}))
    async with running(store.reopened(), time) as controller:
        states.append(await found(controller))
        await controller.change("s", operator.set_backlog_policy, ANONYMOUS, "g", BEHIND)
        states.append(await found(controller))

    assert [flag for flag, _, _ in states] == [True, False, False, True]


async def test_a_group_with_a_policy_is_forgotten_by_an_operator_only(
    store: Watched, time: GivenTime
) -> None:
    """Others go when they are unused; a removed one leaves no record."""
    async with serving(store, time, mark_retention_ms=0) as controller:
        await controller.change("s", operator.set_backlog_policy, ANONYMOUS, "kept", BEHIND)
        for group in ("kept", "unused"):
            await controller.report("s", group, "r", {0: 1})
            await controller.offline("s", group, "r", {})
        serve_for(controller, time, maintenance.FORGET_EVERY_MS)
        await until(lambda: len(controller.stream("s").groups) == 1)
        kept = [record.group for record in store.backlogs(controller.stream("s").id)]
        await controller.remove_group("s", "kept")

        assert kept == ["kept"]
        assert store.backlogs(controller.stream("s").id) == []
        with pytest.raises(UnknownReader):
            await controller.backlog("s", "kept")


async def test_a_policy_is_recorded_with_its_author_and_reason(store: Watched) -> None:
    """Once: the same again changes nothing."""
    order = Order("ops", "replay")
    async with serving(store) as controller:
        for policy in (BEHIND, BEHIND, None):
            await controller.change("s", operator.set_backlog_policy, order, "g", policy)
        changes = await controller.views.changes("s", before=None, limit=2)

    plain = {"watermark_lag_ms": None, "behind_ms": 1000, "rule": "two_way"}
    without, given = ({"group": "g", "backlog": each} for each in (None, plain))
    assert [(each.action, each.was, each.became, each.by, each.comment) for _, each in changes] == [
        ("backlog_policy", given, without, "ops", "replay"),
        ("backlog_policy", without, given, "ops", "replay"),
    ]


async def test_the_flag_is_shown_to_scrapes(memory: WatchedMemory, time: GivenTime) -> None:
    """As it is at that moment, of the groups that a caller asked it of."""
    async with serving(memory, time) as controller:
        await noted(controller, 1000, 9000)
        for group in "ghi":
            await controller.report("s", group, "r", {0: 10})
        await controller.report("s", "h", "r", {0: 20})
        for group in "gh":
            await controller.change("s", operator.set_backlog_policy, ANONYMOUS, group, BEHIND)
        before = scraped(controller, "noted_time_group_backlog")
        await controller.report("s", "g", "r", {0: 20})

        assert (before, scraped(controller, "noted_time_group_backlog")) == (
            {("g", "s"): 1.0, ("h", "s"): 0.0},
            {("g", "s"): 0.0, ("h", "s"): 0.0},
        )


async def test_the_flag_does_not_wait_for_a_commit_unless_it_is_another(
    memory: WatchedMemory,
) -> None:
    """Readers ask twice a second, and must not write each time."""
    async with serving(memory) as controller:
        await noted(controller, 1000, 9000)
        await controller.change("s", operator.set_backlog_policy, ANONYMOUS, "g", BEHIND)
        await found(controller)
        attempts = memory.watch.attempts
        await asyncio.gather(*(found(controller) for _ in range(5)))

        assert memory.watch.attempts == attempts
