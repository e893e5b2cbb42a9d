"""How replicas and their database come to a fault of the list. Each is mended after a while."""

import asyncio
import random
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx

from controller.service.committer import COMMIT_TIMEOUT_S
from noted_time.values import HOUR_MS
from tests.support import power
from tests.support.power_store import find_lost, note_until_kill
from tests.support.processes import ServeProcess
from tests.trials.actors.administering import set_writer_timeout
from tests.trials.actors.calls import DOCUMENTED, Caller
from tests.trials.actors.history import History
from tests.trials.actors.load import WRITER_TIMEOUT_S, streams
from tests.trials.chaos.arena import Arena
from tests.trials.chaos.link import Mode
from tests.trials.chaos.replica import Replica
from tests.trials.chaos.trial import Faults

LEASE_S = 3.0
"""How long an owner may not be heard of before another takes its place."""

AWAY_S = (LEASE_S + 1.0, LEASE_S + 3.0)

OUTAGE_S = (WRITER_TIMEOUT_S + 0.5, WRITER_TIMEOUT_S + 2.0)

PATIENT_S = 60.0
"""The writer timeout while no writer can be heard, although the listening replica lives."""

HEARD_AGAIN_S = 5.0
"""Within this time every writer has found the replica that it could not reach."""

HELD_S = 20.0
"""Longer than a replica holds a request for another that does not answer."""

HUNG_S = COMMIT_TIMEOUT_S + 2.0
FIRST_MARK_S = 30.0
POWER_CUTS = 20
"""How many moments of a run are tried, besides its end."""


async def kill(arena: Arena, *, is_owner: bool = False) -> None:
    """Kill -9 the owner, or any replica, serving or not."""
    replica = await (arena.owner() if is_owner else arena.anyone())
    async with replica.busy:
        arena.kill(replica)
        await _start_soon(arena, replica)


async def stop(arena: Arena) -> None:
    replica = await arena.anyone()
    async with replica.busy:
        await asyncio.to_thread(replica.stop)
        await _start_soon(arena, replica)


async def kill_all(arena: Arena, *ahead_hours: int) -> None:
    """Kill -9 all of them, and start them on wall clocks that are so far ahead."""
    async with _hold_all(arena):
        for replica in arena.replicas:
            arena.kill(replica)
        await arena.start(*(hour * HOUR_MS for hour in ahead_hours))


async def shift_clocks(arena: Arena) -> None:
    """Kill -9 all, and start each on a wall clock that is wrong in its own way."""
    hours = [0, arena.chance.randint(1, 20), -arena.chance.randint(1, 20)]
    arena.chance.shuffle(hours)
    await kill_all(arena, *hours)


async def pause(arena: Arena) -> None:
    replica = await arena.owner()
    async with replica.busy:
        replica.signal(signal.SIGSTOP)
        await asyncio.sleep(arena.chance.uniform(*AWAY_S))
        replica.signal(signal.SIGCONT)


async def restart_database(
    arena: Arena, stop_signal: signal.Signals, away_s: tuple[float, float]
) -> None:
    async with arena.database_busy:
        await asyncio.to_thread(arena.server.stop, stop_signal)
        await asyncio.sleep(arena.chance.uniform(*away_s))
        await asyncio.to_thread(arena.server.start)


async def fail_links(
    arena: Arena, mode: Mode, for_s: tuple[float, float] = AWAY_S, *, is_isolated: bool = False
) -> None:
    """Have the owner's link to the database fail, or all its links."""
    replica = await arena.owner()
    links = [replica.database, replica.door] if is_isolated else [replica.database]
    async with replica.busy:
        for link in links:
            link.turn(mode)
        await asyncio.sleep(arena.chance.uniform(*for_s))
        for link in links:
            link.turn("whole")


async def hang_database(arena: Arena) -> None:
    """Stall all links to it; raises `AssertionError` if a replica does not show it."""
    async with arena.database_busy, _hold_all(arena):
        for replica in arena.replicas:
            replica.database.turn("stalled")
        try:
            await asyncio.sleep(HUNG_S)
            states = [await replica.read_state(arena.http, HUNG_S) for replica in arena.replicas]
        finally:
            for replica in arena.replicas:
                replica.database.turn("whole")
    assert {state[:3] for state in states} == {(503, 0, 0)}, states


async def lose_answers(arena: Arena) -> None:
    """Lose the answers of the serving replica, which has done its work by then."""
    replica = await arena.owner()
    async with replica.busy:
        for _ in range(5):
            replica.door.turn("mute")
            await asyncio.sleep(arena.chance.uniform(0.2, 0.6))
            replica.door.turn("whole")
            await asyncio.sleep(arena.chance.uniform(0.0, 0.3))


async def unreach(arena: Arena) -> None:
    """Cut callers off from the replica with the most streams, which it keeps.

    The others report this to callers that ask for one of those. Raises `AssertionError` if not.
    """
    replica = await arena.busiest()
    async with replica.busy:
        # the clock of silence runs while a replica serves
        await _set_writer_timeout(arena, PATIENT_S)
        replica.door.turn(arena.chance.choice(("cut", "swallowing")))
        other_replicas = [each for each in arena.replicas if each is not replica]
        away_s = LEASE_S + arena.chance.uniform(1.0, 4.0)
        requests = (
            _ask_for(arena, arena.chance.choice(other_replicas), stream) for stream in streams()
        )
        try:
            await asyncio.gather(asyncio.sleep(away_s), *requests)
        finally:
            replica.door.turn("whole")
        await asyncio.sleep(HEARD_AGAIN_S)
        await _set_writer_timeout(arena, WRITER_TIMEOUT_S)


async def start_on_nothing(arena: Arena) -> None:
    """Start two or three more replicas at once on a database without tables, and use them.

    Raises `AssertionError` if one of them does not start, or their first note makes no mark.
    """
    async with arena.database_busy:
        directory = Path(tempfile.mkdtemp(prefix="empty-start-", dir=arena.directory))
        count = arena.chance.choice((2, 3))
        async with Arena(arena.server, directory, arena.chance, count=count) as other:
            assert [replica.refused_starts for replica in other.replicas] == [0] * count
            await _make_a_mark(other)


async def cut_power(arena: Arena) -> None:
    """Cut the power of a controller on SQLite amid its notes, and start it on the durable files.

    Raises `AssertionError` if an answered note is lost, or the server no longer answers.
    """
    if reason := power.missing():
        arena.counts[f"power not cut: {reason}"] += 1
        return
    directory = Path(tempfile.mkdtemp(prefix="power-", dir=arena.directory))
    chance = random.Random(arena.chance.random())
    await asyncio.to_thread(_cut_power, directory, chance)
    arena.counts["power cuts"] += POWER_CUTS + 1


REPLICA_FAULTS: Faults[Arena] = {
    "kill-owner": partial(kill, is_owner=True),
    "kill": kill,
    "kill-all": kill_all,
    "stop": stop,
    "pause": pause,
    # as its administrators would in an emergency
    "database-crash": partial(restart_database, stop_signal=signal.SIGQUIT, away_s=(0.0, 2.0)),
    "database-outage": partial(restart_database, stop_signal=signal.SIGKILL, away_s=OUTAGE_S),
    "cut": partial(fail_links, mode="cut", for_s=(0.5, LEASE_S + 2.0)),
    "half-open": partial(fail_links, mode="swallowing"),
    "stall": partial(fail_links, mode="stalled"),
    "database-hang": hang_database,
    "lost-answers": lose_answers,
    "isolated": partial(fail_links, mode="swallowing", is_isolated=True),
    "unreached": unreach,
    "clocks": shift_clocks,
    "empty-start": start_on_nothing,
    "power": cut_power,
}


async def _start_soon(arena: Arena, replica: Replica) -> None:
    await asyncio.sleep(arena.chance.choice((0.0, 0.5, 2.0)))
    await replica.start()


@asynccontextmanager
async def _hold_all(arena: Arena) -> AsyncIterator[None]:
    """Have no other fault affect a replica."""
    async with AsyncExitStack() as stack:
        for replica in arena.replicas:
            await stack.enter_async_context(replica.busy)
        yield


def _cut_power(directory: Path, chance: random.Random) -> None:
    disk = power.Disk.new(directory)
    notes = chance.randint(1, 60)
    left = directory / "left"
    acknowledged_times = note_until_kill(disk, disk.variables, notes)
    *before, last = disk.cuts()
    for cut in (*chance.choices(before, k=POWER_CUTS), last):
        torn = cut is not last and chance.random() < 0.5
        assert find_lost(cut, acknowledged_times, left, torn=torn) == set(), (len(cut.before), torn)
    with ServeProcess(left, is_forked=False) as restarted_process:
        note = {"writer": "UA", "time": notes + 1, "position": {"0": notes + 1}}
        restarted_process.ready().post("flights", note)


async def _set_writer_timeout(arena: Arena, seconds: float) -> None:
    """Change it for every stream; raises `TimeoutError` if that is not taken for long."""
    async with asyncio.timeout(PATIENT_S):
        await set_writer_timeout(_caller(arena), streams(), seconds)


def _caller(arena: Arena) -> Caller:
    return Caller(arena.http, arena.urls, History({}), arena.chance)


async def _ask_for(arena: Arena, replica: Replica, stream: str) -> None:
    """Ask the replica for the writers of a stream, which only its owner knows."""
    url = f"{replica.url}/v1/streams/{stream}/writers"
    try:
        answer = await arena.http.get(url, params={"limit": 1}, timeout=HELD_S)
    except httpx.TransportError:  # another fault
        return
    if answer.is_success:
        return
    assert answer.status_code in DOCUMENTED, answer.text
    assert "retry-after" in answer.headers, answer.text
    arena.counts[f"reported as unreachable: {answer.json()['code']}"] += 1


async def _make_a_mark(arena: Arena) -> None:
    """Make a stream, note to it and see the mark; raises `AssertionError` if none comes."""
    caller = _caller(arena)
    stream = "/v1/streams/first"
    notes = [{"writer": "a", "time": 1, "position": {"0": 1}}]
    async with asyncio.timeout(FIRST_MARK_S):
        await caller.call("PUT", stream, json={"mark_interval_ms": 0})
        await caller.call("POST", f"{stream}/notes", json={"notes": notes})
        marks = ()
        while not marks:
            parameters = {"wait_ms": 1000}
            answer = await caller.call("GET", f"{stream}/marks", wait_s=1.0, params=parameters)
            marks = answer["marks"]
    assert [mark["lower"] for mark in marks] == [1], marks
