"""Changes by operators, and their records."""

import asyncio

import pytest

from controller.aggregation import operations
from controller.aggregation.operations import ANONYMOUS_ORDER, Order
from controller.service import maintenance
from controller.service.controller import Controller
from controller.store.records import Change
from noted_time.values import DAY_MS, Note, NotedMeanwhile
from tests.support.controllers import (
    GivenTime,
    Watched,
    deliver,
    member,
    serve_for,
    serve_stream,
    skip_served_time,
    wait_until_async,
)
from tests.support.http import Caller

OPS = Order("ops", "it is slow")


async def changes(controller: Controller) -> list[Change]:
    return await controller.views.changes("s", before=None, limit=1000)


async def test_changes_are_kept_for_90_days(store: Watched, time: GivenTime) -> None:
    """The last one is kept, because it numbers the next."""
    async with serve_stream(store, time) as controller:
        await deliver(controller, Note("a", 1))
        skip_served_time(controller, 90 * DAY_MS)
        await controller.change("s", operations.hold, ANONYMOUS_ORDER, "a", 1000)
        skip_served_time(controller, 1)
        await asyncio.sleep(0)  # a controller counts from its first turn
        serve_for(controller, time, maintenance.FORGET_RECORDS_EVERY_MS)
        await wait_until_async(
            lambda: store.changes(controller.stream("s").id, before=2, limit=9) == []
        )

        assert [each.number for each in await changes(controller)] == [2]


async def test_removal_sees_note_of_its_commit(store: Watched, time: GivenTime) -> None:
    """The removal checks `noted_at` in its commit."""
    async with serve_stream(store, time) as controller:
        await deliver(controller, Note("a", 1))
        seen = member(controller, "a").noted_at
        store.watch.open.clear()
        under_way = asyncio.ensure_future(deliver(controller, Note("b", 1)))
        await wait_until_async(lambda: store.watch.attempts == 3)
        serve_for(controller, time, 50)
        noted = controller.note("s", [Note("a", 2)])
        removal = asyncio.ensure_future(controller.change("s", operations.remove, OPS, "a", seen))
        await asyncio.sleep(0)
        store.watch.open.set()
        await asyncio.gather(under_way, noted)

        with pytest.raises(NotedMeanwhile):
            await removal


async def test_answer_to_many_joins_is_bounded(call: Caller) -> None:
    """Positions are limited to the size of one request."""
    wide = {str(segment): 1 for segment in range(1500)}
    await call.note({"writer": "a", "time": 5, "position": wide}, {"writer": "b", "time": 5})
    results = await call.note(*[{"writer": "a"}, {"writer": "b"}] * 5)

    sizes = [len(each.get("position", ())) for each in results]
    assert (sizes[0], sizes[2], sum(sizes)) == (1500, 1500, 3000)
    assert [each["status"] for each in results] == ["accepted"] * 10
