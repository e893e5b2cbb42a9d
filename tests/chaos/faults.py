"""The faults of a trial by name. Each lasts for a while and is mended."""

import asyncio
import random
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx

from controller.service.committer import COMMIT_TIMEOUT_S
from tests.chaos.arena import Arena
from tests.chaos.calls import DOCUMENTED
from tests.chaos.history import now
from tests.chaos.link import Mode
from tests.chaos.replica import Replica
from tests.chaos.scaling import SETTINGS
from tests.support import power
from tests.support.power_store import find_lost, note_until_kill
from tests.support.processes import ServeProcess

Fault = Callable[[Arena], Awaitable[None]]

LEASE_S = 3.0
"""How long an owner may not be heard of before another takes its place."""

WRITER_TIMEOUT_S = 6.0
"""Of the trial's streams: shorter than `database-outage`, longer than a writer needs to retry."""

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

HOUR_MS = 3_600_000


async def kill_owner(arena: Arena) -> None:
    """Kill -9 the owner; start it again at once or a little later."""
    await _kill_and_start(arena, await arena.owner())


async def kill_anyone(arena: Arena) -> None:
    """Kill -9 any replica, serving or not."""
    await _kill_and_start(arena, await arena.anyone())


async def kill_all(arena: Arena) -> None:
    """Kill -9 all of them, and start them at once."""
    async with AsyncExitStack() as stack:
        for replica in arena.replicas:
            await stack.enter_async_context(replica.busy)
        for replica in arena.replicas:
            arena.kill(replica)
        await arena.start(arena.replicas)


async def pause(arena: Arena) -> None:
    """Stop the owner for longer than its lease. It wakes up without knowing."""
    replica = await arena.owner()
    async with replica.busy:
        replica.pause()
        await asyncio.sleep(LEASE_S + arena.chance.uniform(1.0, 3.0))
        replica.wake()


async def crash_database(arena: Arena) -> None:
    """Crash PostgreSQL as its administrators would in an emergency, and start it again."""
    await _restart_database(arena, signal.SIGQUIT, arena.chance.uniform(0.0, 2.0))


async def lose_database(arena: Arena) -> None:
    """Kill PostgreSQL, and leave it away for longer than the writer timeout."""
    away_s = WRITER_TIMEOUT_S + arena.chance.uniform(0.5, 2.0)
    await _restart_database(arena, signal.SIGKILL, away_s)


async def cut(arena: Arena) -> None:
    """Cut every connection between the owner and the database."""
    await _fail_link(arena, "cut", arena.chance.uniform(0.5, LEASE_S + 2.0))


async def half_open(arena: Arena) -> None:
    """Swallow everything sent between the serving replica and the database."""
    await _fail_link(arena, "swallowing", LEASE_S + arena.chance.uniform(1.0, 3.0))


async def stall(arena: Arena) -> None:
    """Delay everything sent between the serving replica and the database, and pass it on."""
    await _fail_link(arena, "stalled", LEASE_S + arena.chance.uniform(1.0, 3.0))


async def hang_database(arena: Arena) -> None:
    """Pass nothing on between any replica and the database, for longer than a commit may take.

    Raises `AssertionError` if a replica does not show it.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(arena.database_busy)
        for replica in arena.replicas:
            await stack.enter_async_context(replica.busy)
        for replica in arena.replicas:
            replica.database.turn("stalled")
        try:
            await asyncio.sleep(HUNG_S)
            shown = [await replica.show_state(arena.http) for replica in arena.replicas]
        finally:
            for replica in arena.replicas:
                replica.database.turn("whole")
    assert shown == [(503, 0, 0)] * len(shown), shown


async def lose_answers(arena: Arena) -> None:
    """Lose the answers of the serving replica, which has done its work by then."""
    replica = await arena.owner()
    async with replica.busy:
        for _ in range(5):
            replica.door.turn("mute")
            await asyncio.sleep(arena.chance.uniform(0.2, 0.6))
            replica.door.turn("whole")
            await asyncio.sleep(arena.chance.uniform(0.0, 0.3))


async def isolate(arena: Arena) -> None:
    """Swallow everything the serving replica sends or receives, as without a network."""
    replica = await arena.owner()
    async with replica.busy:
        for link in (replica.door, replica.database):
            link.turn("swallowing")
        await asyncio.sleep(LEASE_S + arena.chance.uniform(1.0, 3.0))
        for link in (replica.door, replica.database):
            link.turn("whole")


async def unreach(arena: Arena) -> None:
    """Cut callers off from the replica with the most streams; it keeps database and streams.

    The others report this to callers that ask for one of those. Raises `AssertionError` if not.
    """
    replica = await arena.busiest()
    async with replica.busy, _patience(arena):
        replica.door.turn(arena.chance.choice(("cut", "swallowing")))
        others = [each for each in arena.replicas if each is not replica]
        away_s = LEASE_S + arena.chance.uniform(1.0, 4.0)
        asked = (_ask_for(arena, arena.chance.choice(others), stream) for stream in SETTINGS)
        try:
            await asyncio.gather(asyncio.sleep(away_s), *asked)
        finally:
            replica.door.turn("whole")
        await asyncio.sleep(HEARD_AGAIN_S)


async def shift_clocks(arena: Arena) -> None:
    """Kill -9 all, and start each on a wall clock that is wrong by hours in its own way."""
    async with AsyncExitStack() as stack:
        for replica in arena.replicas:
            await stack.enter_async_context(replica.busy)
        for replica in arena.replicas:
            arena.kill(replica)
        hours = [0, arena.chance.randint(1, 20), -arena.chance.randint(1, 20)]
        arena.chance.shuffle(hours)
        await asyncio.gather(
            *(
                replica.start(ahead_ms=each * HOUR_MS)
                for replica, each in zip(arena.replicas, hours, strict=True)
            )
        )


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


FAULTS: Mapping[str, Fault] = {
    "kill-owner": kill_owner,
    "kill": kill_anyone,
    "kill-all": kill_all,
    "pause": pause,
    "database-crash": crash_database,
    "database-outage": lose_database,
    "cut": cut,
    "half-open": half_open,
    "stall": stall,
    "database-hang": hang_database,
    "lost-answers": lose_answers,
    "isolated": isolate,
    "unreached": unreach,
    "clocks": shift_clocks,
    "empty-start": start_on_nothing,
    "power": cut_power,
}


def _cut_power(directory: Path, chance: random.Random) -> None:
    disk, notes, left = power.Disk.new(directory), chance.randint(1, 60), directory / "left"
    answered = note_until_kill(disk, disk.variables, notes)
    *before, last = disk.cuts()
    for cut in (*chance.choices(before, k=POWER_CUTS), last):
        torn = cut is not last and chance.random() < 0.5
        assert find_lost(cut, answered, left, torn=torn) == set(), (len(cut.before), torn)
    with ServeProcess(left, is_forked=False) as again:
        note = {"writer": "UA", "time": notes + 1, "position": {"0": notes + 1}}
        again.ready().post("flights", note)


async def _kill_and_start(arena: Arena, replica: Replica) -> None:
    async with replica.busy:
        arena.kill(replica)
        await asyncio.sleep(arena.chance.choice((0.0, 0.5, 2.0)))
        await replica.start()


async def _restart_database(arena: Arena, how: signal.Signals, away_s: float) -> None:
    async with arena.database_busy:
        await asyncio.to_thread(arena.server.stop, how)
        await asyncio.sleep(away_s)
        await asyncio.to_thread(arena.server.start)


async def _fail_link(arena: Arena, mode: Mode, for_s: float) -> None:
    replica = await arena.owner()
    async with replica.busy:
        replica.database.turn(mode)
        await asyncio.sleep(for_s)
        replica.database.turn("whole")


@asynccontextmanager
async def _patience(arena: Arena) -> AsyncIterator[None]:
    """Use a long writer timeout: the clock of silence runs while a replica serves."""
    await _set_writer_timeout(arena, PATIENT_S)
    yield
    await _set_writer_timeout(arena, WRITER_TIMEOUT_S)


async def _set_writer_timeout(arena: Arena, seconds: float) -> None:
    """Change it for every stream; raises `TimeoutError` if that is not taken for long."""
    body = {"writer_timeout_ms": int(seconds * 1000)}
    async with asyncio.timeout(PATIENT_S):
        for stream in SETTINGS:
            while True:
                url = f"{arena.chance.choice(arena.replicas).url}/v1/streams/{stream}"
                with suppress(httpx.TransportError):
                    if (await arena.http.put(url, json=body, timeout=HELD_S)).is_success:
                        break
                await asyncio.sleep(0.2)


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
    until = now() + FIRST_MARK_S
    while (seen := await _first_lowers(arena)) != [1]:
        assert now() < until, f"the first note made the marks {seen}"
        await asyncio.sleep(0.2)


async def _first_lowers(arena: Arena) -> list[int]:
    """Note the time 1 to some replica; returns the lowers of the marks it has then."""
    stream = f"{(await arena.owner()).url}/v1/streams/first"
    note = {"writer": "a", "time": 1, "position": {"0": 1}}
    try:
        await arena.http.put(stream, json={"mark_interval_ms": 0})
        await arena.http.post(f"{stream}/notes", json={"notes": [note]})
        marks = await arena.http.get(f"{stream}/marks", params={"wait_ms": 1000})
    except httpx.TransportError:
        return []
    return [mark["lower"] for mark in marks.json()["marks"]] if marks.is_success else []
