"""How the controllers of a schedule come to a fault of the list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from noted_time.values import DAY_MS, HOUR_MS
from tests.trials.simulation import clients
from tests.trials.simulation.arena import FREQUENCIES, Arena

STEPS_MS = (1000, 60_000, HOUR_MS, 400 * DAY_MS)
"""By how much a wall clock may step, forwards or back."""


async def kill(arena: Arena, name: str) -> None:
    """End a process; the database may notice at once, or by its silence."""
    arena.disturbed_at[name] = arena.loop.time()
    del arena.controllers[name]
    arena.loop.kill(name)
    if arena.chance.random() < 0.5:
        await arena.end_session(name)


async def begin(arena: Arena, name: str, fault: str) -> None:
    """Have a fault of a link last for a while."""
    arena.until[fault, name] = arena.loop.time() + arena.chance.uniform(0.5, 5.0)


async def suspend(arena: Arena, name: str) -> None:
    """Have the clocks of a process skip an hour, and the service clock a second."""
    arena.skipped_ms[name] += HOUR_MS
    arena.skipped_ms[""] += 1000
    arena.disturbed_at[name] = arena.loop.time()


async def pause(arena: Arena, name: str) -> None:
    """Pause a process at once, or with its next commit under way."""
    if arena.chance.random() < 0.3:
        arena.pause(name)
    else:
        arena.pauses_at_commit.add(name)


async def step_clock(arena: Arena, name: str) -> None:
    """Step the wall clock of a controller, which may start later, or of the clients."""
    clock_name = arena.chance.choice((name, clients.WRITER))
    arena.stepped_ms[clock_name] += arena.chance.choice((-1, 1)) * arena.chance.choice(STEPS_MS)


CLOCKS = "clocks"
"""The only one that also hits a controller that does not run."""

CONTROLLER_FAULTS: Mapping[str, Callable[[Arena, str], Awaitable[None]]] = {
    "kill": kill,
    "cut": Arena.end_session,
    "stall": partial(begin, fault="stall"),
    "unreached": partial(begin, fault="unreached"),
    "suspend": suspend,
    "stop": Arena.stop,
    "pause": pause,
    CLOCKS: step_clock,
}
DRAWN_FAULTS = ("kill", *CONTROLLER_FAULTS)
"""What a schedule draws from: kills are twice as frequent as others."""

SIMULATED_FAULTS = (*CONTROLLER_FAULTS, *FREQUENCIES)


async def break_things(arena: Arena) -> None:
    """Disturb the controllers, their clocks, network and sessions."""
    chance = arena.chance
    while True:
        await asyncio.sleep(chance.uniform(0.1, 2.5))
        name = chance.choice(arena.replicas)
        fault = chance.choice(DRAWN_FAULTS)
        if fault != CLOCKS and name not in arena.controllers:
            await arena.start(name)
        elif fault == CLOCKS or name not in arena.loop.frozen:
            await CONTROLLER_FAULTS[fault](arena, name)
