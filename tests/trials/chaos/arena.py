"""Where a trial runs: several replicas on one database that was empty at first."""

import asyncio
import random
from collections import Counter
from itertools import repeat
from pathlib import Path
from typing import Self

import httpx

from tests.trials.actors.calls import wait_until_true
from tests.trials.actors.history import History
from tests.trials.chaos.replica import Replica, State
from tests.trials.laws import LIVE
from tools.trials.postgres import Server

REPLICAS = 3
BUSY_S = 60.0
"""Longer than any fault of a replica lasts."""


class Arena:
    """The replicas, their database and its server; leaving the block ends the replicas.

    A fault that makes the server fail holds `database_busy`. `kills` counts processes that were
    killed, `counts` holds what faults found.
    """

    def __init__(
        self, server: Server, directory: Path, chance: random.Random, *, count: int = REPLICAS
    ) -> None:
        self.server = server
        self.directory = directory
        self.chance = chance
        self.kills = 0
        self.counts: Counter[str] = Counter()
        self.database_busy = asyncio.Lock()
        self.http = httpx.AsyncClient(
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=200),
            trust_env=False,
        )
        self._clients = [self.http]
        database = server.make_database().rpartition("/")[2]
        self.replicas = [
            Replica(f"replica-{number}", directory, server, database)
            for number in range(1, count + 1)
        ]

    async def __aenter__(self) -> Self:
        """Start all replicas at once: one of them creates the tables."""
        for replica in self.replicas:
            await replica.open()
        try:
            await self.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.aclose()
        for replica in self.replicas:
            await replica.close()

    def client(self) -> httpx.AsyncClient:
        """Return a client for one caller: the time that a shared one takes goes by its size."""
        self._clients.append(httpx.AsyncClient(trust_env=False))
        return self._clients[-1]

    @property
    def urls(self) -> list[str]:
        """The URLs of the replicas, for callers."""
        return [replica.url for replica in self.replicas]

    async def start(self, *ahead_ms: int) -> None:
        """Start all replicas at once, on wall clocks that are so far ahead."""
        clocks = zip(self.replicas, ahead_ms or repeat(0), strict=False)
        await asyncio.gather(*(replica.start(ahead_ms=ahead_ms) for replica, ahead_ms in clocks))

    def kill(self, replica: Replica) -> None:
        """End a replica as a power cut would."""
        replica.kill()
        self.kills += 1

    async def mend(self, history: History) -> None:
        """Start again the replicas that ended by themselves, which none may."""
        for replica in self.replicas:
            words = replica.last_words()
            if words is not None:
                history.broke(LIVE, replica.name, words)
                await replica.start()

    async def anyone(self) -> Replica:
        """Return a random replica that no fault affects, as soon as there is one."""
        return self.chance.choice(await self._find_idle())

    async def owner(self) -> Replica:
        """Return a replica that says it serves, by chance if several do, any if none does."""
        states = await self._read_idle_states()
        serving = [replica for replica, state in states if state.status == httpx.codes.OK]
        return self.chance.choice(serving) if serving else await self.anyone()

    async def busiest(self) -> Replica:
        """Return the unaffected replica with the most streams."""
        return max(await self._read_idle_states(), key=lambda state: state[1].streams)[0]

    async def _find_idle(self) -> list[Replica]:
        """Return the replicas that no fault affects, as soon as there are any."""

        def find() -> list[Replica]:
            return [replica for replica in self.replicas if not replica.busy.locked()]

        await wait_until_true(lambda: bool(find()), BUSY_S)
        return find() or self.replicas

    async def _read_idle_states(self) -> list[tuple[Replica, State]]:
        idle = await self._find_idle()
        states = await asyncio.gather(*(replica.read_state(self.http) for replica in idle))
        return [*zip(idle, states, strict=True)]
