"""Where a schedule runs: controllers over one database, with their clocks and their network."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from math import inf
from random import Random
from typing import Any
from unittest.mock import patch

import httpx

from controller.aggregation.owned_streams import NotOwner
from controller.service import maintenance
from controller.service.clocks import Clocks
from controller.service.controller import Controller
from controller.service.lease_keeper import LeaseKeeper
from controller.store.port import LEASE_MS, StoreUnavailable
from controller.store.records import ChangeSet
from noted_time.values import Note
from tests.trials.laws import LIVE
from tests.trials.simulation.clients import WRITER, seed_clients
from tests.trials.simulation.doors import Door, Network
from tests.trials.simulation.leased import Database, LeasedStore
from tests.trials.simulation.virtual import VirtualLoop, process

START_MS = 1_700_000_000_000
LONGEST_S = 300.0

TICK_S = 0.25
"""Time between two looks of a controller at its streams: twice as many schedules as by tenths."""

FREQUENCIES: Mapping[str, float] = {
    "lost-answers": 0.05,
    "double": 0.1,
    "failed-commit": 0.02,
    "lost-commits": 0.3,
}
"""How often a call meets each of these faults, and a schedule the last one."""


class Arena:
    """The controllers that run, by name, and all that they share.

    `committed` takes each batch and who wrote it, `sent` each note of a client, and `resumed` the
    name of a controller that was paused, before it knows. `until` says how long each fault lasts
    for a controller, and `disturbed_at` when its clocks or its process last failed.
    """

    def __init__(
        self,
        chance: Random,
        committed: Callable[[str, ChangeSet], None],
        sent: Callable[[Note], None],
        resumed: Callable[[str], Awaitable[None]],
    ) -> None:
        self.chance = chance
        self.replicas = ("a", "b", "c")[: 2 + (chance.random() < 0.3)]
        self.is_calm = False
        self.loop = VirtualLoop(self._draw_delay, lambda: chance.random() < 0.5)
        self.database = Database(
            self.loop.time, self._take_commit, partial(self.happens, "failed-commit")
        )
        self.network = Network(self._find_door, partial(self.happens, "double"), sent)
        self.controllers: dict[str, Controller] = {}
        self.stores: dict[str, LeasedStore] = {}
        self.doors: dict[str, Door] = {}
        self.until: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.ended_at: defaultdict[str, float] = defaultdict(lambda: -inf)
        self.disturbed_at: defaultdict[str, float] = defaultdict(float)
        self.skipped_ms: Counter[str] = Counter()
        self.stepped_ms: Counter[str] = Counter()
        self.pauses_at_commit: set[str] = set()
        self._committed = committed
        self._resumed = resumed
        self._resuming: list[asyncio.Task[None]] = []

    def happens(self, fault: str) -> bool:
        """Return whether a call meets a fault of `FREQUENCIES`."""
        return not self.is_calm and self.chance.random() < FREQUENCIES[fault]

    def close(self) -> None:
        """End all processes and the loop."""
        for name in [*self.replicas, ""]:
            self.loop.kill(name)
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    @property
    def urls(self) -> list[str]:
        """The URLs of the controllers, for callers."""
        return [f"http://{name}" for name in self.replicas]

    def client(self) -> httpx.AsyncClient:
        """Return a client for one caller."""
        return httpx.AsyncClient(transport=self.network, trust_env=False)

    async def calm_down(self) -> None:
        """End the faults, once those that last are over."""
        self.is_calm = True
        self.pauses_at_commit.clear()
        await asyncio.sleep(max(0.0, *self.until.values(), self.loop.time()) - self.loop.time())

    # Controllers

    async def start(self, name: str) -> None:
        token = process.set(name)
        skew = self.chance.randrange(-200, 200)
        clocks = Clocks(
            wall_ms=lambda: self.read_wall_clock(name) + skew,
            steady_ms=lambda: int(self.loop.time() * 1000) + self.skipped_ms[name],
            chance=Random(self.chance.random()),
        )
        self.stores[name] = store = LeasedStore(self.database)
        controller = Controller(store, clocks)
        controller.register_url(f"http://{name}")
        self.doors[name] = Door(controller, self.network)
        try:
            await controller.start()
            self.controllers[name] = controller
        finally:
            process.reset(token)

    async def start_all(self) -> None:
        for name in self.replicas:
            if name not in self.controllers:
                await self.start(name)

    async def stop(self, name: str) -> None:
        self.disturbed_at[name] = self.loop.time()
        await self.controllers.pop(name).close()

    async def end_session(self, name: str) -> None:
        session = self.stores[name].session
        self.ended_at[name] = self.loop.time()
        if session is not None:
            self.database.end(session)

    def pause(self, name: str) -> None:
        """Have a process stand still for longer than its leases last."""
        seconds = self.chance.uniform(1.1, 3) * LEASE_MS / 1000
        self.until["pause", name] = self.loop.time() + seconds
        self.loop.freeze(name)
        self._resuming.append(asyncio.create_task(self._resume(name, seconds)))

    async def _resume(self, name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.loop.thaw(name)
        await self._resumed(name)

    def read_wall_clock(self, name: str) -> int:
        return START_MS + self.stepped_ms[name] + int(self.loop.time() * 1000)

    # Calls of controllers, and theirs of the database

    async def ask(self, call: Callable[[Controller], Any], delay_s: float) -> Any:  # noqa: ANN401
        """Ask the controllers in turn, the owner answers; `None` if the answer is not known."""
        await asyncio.sleep(self.chance.uniform(0, delay_s))
        if self.happens("lost-answers"):
            return None
        for name in self.chance.sample(self.replicas, len(self.replicas)):
            if not self._is_reached(name):
                continue
            try:
                async with asyncio.timeout(5.0):
                    controller = self.controllers[name]
                    await self._wait_until_resumed(name)
                    answer = await call(controller)
            except (NotOwner, StoreUnavailable, TimeoutError) as error:
                if "given up" in str(error):  # by the committer, after a bug
                    self.database.violations.append(f"{LIVE}: {name}, {error}")
                continue
            return None if self.happens("lost-answers") else answer
        return None

    async def ask_until_answered(self, call: Callable[[Controller], Any]) -> None:
        while await self.ask(call, 0.1) is None:
            pass

    async def _find_door(self, name: str) -> Door | None:
        """Return the way in to a controller for another one, unless the request gets lost."""
        await asyncio.sleep(self.chance.uniform(0, 0.05))
        await self._wait_until_resumed(name)
        if not self._is_reached(name) or self.happens("lost-answers"):
            return None
        return self.doors[name]

    def _is_reached(self, name: str) -> bool:
        return name in self.controllers and self.until["unreached", name] <= self.loop.time()

    async def _wait_until_resumed(self, name: str) -> None:
        if name in self.loop.frozen:
            await asyncio.sleep(self.until["pause", name] - self.loop.time() + 0.001)

    def _draw_delay(self, name: str) -> float:
        usual = self.chance.uniform(0.0005, 0.01)
        return max(usual, self.until["stall", name] - self.loop.time())

    def _take_commit(self, url: str, batch: ChangeSet) -> None:
        name = url.removeprefix("http://")
        self._committed(name, batch)
        if name in self.pauses_at_commit:
            self.pauses_at_commit.discard(name)
            self.pause(name)


def play(arena: Arena, work: Coroutine[Any, Any, None]) -> None:
    """Do the work in an arena, with its clocks and its chance, and close it."""
    wall_ms = partial(arena.read_wall_clock, WRITER)
    try:
        with (
            patch.object(maintenance, "TICK_S", TICK_S),
            patch.object(LeaseKeeper, "start"),  # the thread: here, each turn renews
            seed_clients(arena.loop.time, wall_ms, arena.chance),
        ):
            arena.loop.run_until_complete(asyncio.wait_for(work, LONGEST_S))
    finally:
        arena.close()
