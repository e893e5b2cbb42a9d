"""Turns of faults, one after another, and what a trial of any kind does between them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, Protocol, TypeVar

from tests.chaos.calls import comes_true
from tests.chaos.history import LIVE, History, Span, now


class Killing(Protocol):
    """Where a trial runs, as far as turns of faults depend on it."""

    kills: int

    async def mend(self, history: History) -> None:
        """Start again what ended by itself, and have the history remember it."""


Arena = TypeVar("Arena", bound=Killing)
Faults = Mapping[str, Callable[[Arena], Awaitable[None]]]

Turn = tuple[str, ...]
"""Faults that begin one soon after the other."""

SOON_S = (0.0, 2.0)

KILLING = 0.55
"""How often a turn of a mixed trial is a kill, if kills are among the faults."""

TOGETHER = (16, 3, 1)
"""How often one, two and three faults come together."""


def each_once(faults: Sequence[str]) -> Iterator[Turn]:
    """Have one fault after the other.

    >>> list(each_once(["kill", "pause"]))
    [('kill',), ('pause',)]
    """
    return ((fault,) for fault in faults)


def mixed(
    faults: Sequence[str], chance: random.Random, goes_on: Callable[[], bool]
) -> Iterator[Turn]:
    """Make faults by chance, often a kill and sometimes several, until the trial ends."""
    while goes_on():
        (count,) = chance.choices(range(1, len(TOGETHER) + 1), TOGETHER)
        yield tuple(dict.fromkeys(_one(faults, chance) for _ in range(count)))


def _one(faults: Sequence[str], chance: random.Random) -> str:
    kills = [fault for fault in faults if fault.startswith("kill")]
    return chance.choice(kills if kills and chance.random() < KILLING else list(faults))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to fail, by chance from a seed.

    `quick_to_go_on` is how often the next turn begins before time has moved again everywhere.
    """

    seed: int
    turns: Callable[[Killing], Iterable[Turn]]
    quick_to_go_on: float = 0.0


@dataclass
class Turns(Generic[Arena]):
    """What has the faults of a plan, and waits until time moves again.

    Time that stands for `moves_s` after a fault was mended is stuck.
    """

    arena: Arena
    faults: Faults[Arena]
    history: History
    chance: random.Random
    plan: Plan
    announce: Callable[[str], None]
    moves_s: float

    async def run(self) -> None:
        """Wait until time moves at first, then have all turns."""
        await self.wait_until_time_moves("start")
        for turn in self.plan.turns(self.arena):
            await self._take(turn)

    async def wait_until_time_moves(self, after: str) -> None:
        """Wait until each steady chain has grown."""
        since = self.history.lengths()
        if not await comes_true(lambda: not self.history.standing(since), self.moves_s):
            standing = ", ".join(self.history.standing(since))
            self.history.broke("watermarks advance", after, f"not advancing: {standing}")

    async def _take(self, turn: Turn) -> None:
        """Have these faults, each soon after the one before, and mostly wait until time moves."""
        self.announce(f"{len(self.history.spans) + 1}: {' and '.join(turn)}")
        delays = accumulate((self.chance.uniform(*SOON_S) for _ in turn[1:]), initial=0.0)
        await asyncio.gather(*map(self._fail, turn, delays))
        await self.arena.mend(self.history)
        if self.chance.random() >= self.plan.quick_to_go_on:
            await self.wait_until_time_moves(" and ".join(turn))

    async def _fail(self, kind: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        begun = now()
        try:
            await self.faults[kind](self.arena)
        except (AssertionError, TimeoutError) as error:
            self.history.broke(LIVE, kind, repr(error))
        self.history.spans.append(Span(kind, begun, now()))
