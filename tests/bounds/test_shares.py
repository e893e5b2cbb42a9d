"""One token cannot use up a shared resource."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controller.aggregation.groups import GroupLimits
from controller.service.limits import Limits
from tests.support.controllers import until
from tests.support.gates import Door, Guarded, behind

MOST = 8
POLL = "/v1/streams/s/marks?wait_ms=20000"
LIMITS = Limits(long_polls=MOST, readers=GroupLimits(groups=MOST))
OVERLOADED = (503, "overloaded")


@asynccontextmanager
async def held(door: Door, token: str | None, count: int) -> AsyncIterator[None]:
    """Keep that many long polls of a token waiting."""
    waiting = len(door.controller.polls)
    tasks = [asyncio.create_task(door.call("GET", POLL, token)) for _ in range(count)]
    await until(lambda: len(door.controller.polls) == waiting + count)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await until(lambda: len(door.controller.polls) == waiting)


async def test_a_token_leaves_long_polls_to_others() -> None:
    """Of eight it gets six, another one gets the rest, and an admin one beyond them."""
    guarded = Guarded()
    greedy, other, admin = (guarded.token(scope) for scope in ("read", "read", "admin"))
    async with behind(guarded.gate, limits=LIMITS) as door, held(door, greedy, 6):
        refused = [await door.call("GET", POLL, greedy)]
        async with held(door, other, 2):
            refused.append(await door.call("GET", POLL, other))
            async with held(door, admin, 1):
                refused.append(await door.call("GET", POLL, admin))
        async with held(door, other, 2):
            pass

    assert refused == [OVERLOADED] * 3


async def test_without_tokens_there_are_no_shares() -> None:
    """Callers cannot be distinguished."""
    async with behind(Guarded().gate, limits=LIMITS) as door, held(door, None, MOST):
        assert await door.call("GET", POLL) == OVERLOADED


async def test_a_token_leaves_reader_groups_to_others() -> None:
    """As many as of long polls; it can still report to those that it has."""
    guarded = Guarded()
    greedy, other, admin = (guarded.token(scope) for scope in ("read", "read", "admin"))
    asked = [(greedy, 7), (other, 3), (admin, 2)]
    async with behind(guarded.gate, limits=LIMITS) as door:

        async def report(token: str, number: int) -> tuple[int, str]:
            path = f"/v1/streams/s/reader-groups/{token[:15]}-{number}/readers/r"
            return await door.call("PUT", path, token, {"position": {}})

        seen = [[await report(token, n) for n in range(count)] for token, count in asked]
        again = await report(greedy, 0)

    reached = (422, "limit_reached")
    taken = [[each == (200, "") for each in answers] for answers in seen]
    assert (taken, {answers[-1] for answers in seen}, again) == (
        [[True] * 6 + [False], [True, True, False], [True, False]],
        {reached},
        (200, ""),
    )
