"""Changes by operators, and their records."""

import asyncio

import pytest

from controller.aggregation import operations
from controller.aggregation.operations import Order
from noted_time.values import Note, NotedMeanwhile
from tests.support.controllers import GivenTime, Watched, deliver, member, serve_for, serve_stream
from tests.support.http import Caller

OPS = Order("ops", "it is slow")


async def test_removal_sees_note_of_its_commit(store: Watched, time: GivenTime) -> None:
    """The removal checks `noted_at` in its commit."""
    async with serve_stream(store, time) as controller:
        await deliver(controller, Note("a", 1))
        first_noted_at = member(controller, "a").noted_at
        async with store.watch.hold(deliver(controller, Note("b", 1))) as under_way:
            serve_for(controller, time, 50)
            note = controller.note("s", [Note("a", 2)])
            removing = controller.change("s", operations.remove, OPS, "a", first_noted_at)
            removal = asyncio.ensure_future(removing)
            await asyncio.sleep(0)
        await asyncio.gather(under_way, note)

        with pytest.raises(NotedMeanwhile):
            await removal


async def test_answer_to_many_joins_is_bounded(call: Caller) -> None:
    """Positions are limited to the size of one request."""
    wide = {str(segment): 1 for segment in range(1500)}
    await call.note({"writer": "a", "time": 5, "position": wide}, {"writer": "b", "time": 5})
    results = await call.note(*[{"writer": "a"}, {"writer": "b"}] * 5)

    sizes = [len(result.get("position", ())) for result in results]
    assert (sizes[0], sizes[2], sum(sizes)) == (1500, 1500, 3000)
