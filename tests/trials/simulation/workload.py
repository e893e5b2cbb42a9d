"""A schedule of the actors of `./run chaos`: they call by HTTP, in virtual time."""

import asyncio
from contextlib import suppress
from random import Random

from tests.trials.actors.history import Violation
from tests.trials.actors.workload import Workload
from tests.trials.simulation.arena import Arena, play
from tests.trials.simulation.faults import break_things

FAULTS_S = 15.0
WRITER_TIMEOUT_S = 20.0
"""Longer than faults that follow each other keep a writer from all controllers."""


def _ignore(*_: object, **__: object) -> None:
    pass


class WorkloadSchedule:
    """A run from one seed. `run` returns the violations."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._arena = Arena(
            self._chance, committed=_ignore, sent=_ignore, resumed=lambda _: asyncio.sleep(0)
        )
        self.workload = Workload(self._arena, WRITER_TIMEOUT_S)

    def run(self) -> list[Violation | str]:
        """Play it to its end."""
        play(self._arena, self._play())
        return [*self.workload.history.violations, *self._arena.database.violations]

    async def _play(self) -> None:
        await self._arena.start_all()
        async with self.workload.work(_ignore, self._chance):
            with suppress(TimeoutError):
                await asyncio.wait_for(break_things(self._arena), FAULTS_S)
            await self._arena.calm_down()
            await self._arena.start_all()
        await self.workload.judge()
