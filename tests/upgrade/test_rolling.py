"""Rolling updates to the next version and back, under the load of `./run chaos`, with kills."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from demo.trials.postgres import Server
from demo.trials.waiting import slowdown
from tests.chaos.arena import Arena
from tests.chaos.replica import Replica
from tests.chaos.replicated import Replicated
from tests.chaos.trial import Plan, Trial
from tests.replicas.replica_processes import BUCKETS
from tests.support.next_version import NEXT, NextVersion
from tests.support.processes import ROOT

pytestmark = pytest.mark.anyio
BEYOND_S = 8.0
"""How much longer marks may stand still than in a takeover.

Streams move twice in an update, and the load alone stands still for 3 s.
"""


def replace_replica(
    index: int, code: Path, end: Callable[[Replica], object]
) -> Callable[[Arena], Awaitable[None]]:
    """Return a step that ends a replica, has the other take over, and starts it with this code."""

    async def replace(arena: Arena) -> None:
        replica, other = arena.replicas[index], arena.replicas[1 - index]
        async with replica.busy:
            await asyncio.to_thread(end, replica)
            await wait_until_shared(arena, other)
            await replica.start(code=code)
            await wait_until_shared(arena, *arena.replicas)

    return replace


async def wait_until_shared(arena: Arena, *replicas: Replica) -> None:
    """Wait until these replicas own all buckets, each as many as the others."""
    shares = {BUCKETS / len(replicas)}
    while {(await each.read_state(arena.http)).buckets for each in replicas} != shares:  # noqa: ASYNC110
        await asyncio.sleep(0.05)  # there is no event to wait for


async def check_versions(arena: Arena) -> None:
    answer = await arena.http.get(f"{arena.urls[0]}/v1/controllers")
    assert [each["revision"] for each in answer.json()["controllers"]] == [NEXT] * 2


async def test_rolling_forward_back_and_forward_loses_nothing(
    server: Server, tmp_path: Path
) -> None:
    """Every law of `docs/explain/chaos.md` holds.

    Marks stand still for little longer than after a kill of a controller of this version.
    """
    later = NextVersion(tmp_path / "later")
    arena = Arena(server, tmp_path, random.Random(1), count=2)

    async def migrate(arena: Arena) -> None:
        await asyncio.to_thread(later.migrate, server.url(arena.database))

    takeovers = {
        "a takeover": replace_replica(0, ROOT, Replica.kill),
        "another takeover": replace_replica(1, ROOT, Replica.kill),
    }
    updates = {
        "forward": replace_replica(0, later.code, Replica.stop),
        "all forward": replace_replica(1, later.code, Replica.kill),
        "back": replace_replica(1, ROOT, Replica.stop),
        "all back": replace_replica(0, ROOT, Replica.kill),
        "forward again": replace_replica(0, later.code, Replica.kill),
        "all forward again": replace_replica(1, later.code, Replica.stop),
    }
    steps = {**takeovers, "migrate": migrate, **updates, "check": check_versions}
    plan = Plan(1, turns=lambda _: [(step,) for step in steps])
    slowest = slowdown()
    verdict = await Trial(arena, steps, Replicated(arena), plan).hold(tmp_path)
    slowest = max(slowest, slowdown())
    longest_s = max(verdict.gaps_s[each] for each in takeovers) + BEYOND_S * slowest

    assert not verdict.violations, verdict.violations
    assert verdict.faults == dict.fromkeys(sorted(steps), 1)
    assert max(verdict.gaps_s[each] for each in updates) <= longest_s, verdict.gaps_s
