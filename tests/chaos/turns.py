"""Turns of faults, one after another, and their arenas."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from tests.chaos.history import History


class Killing(Protocol):
    """The place of a trial: processes that live as long as its block, and their counts."""

    kills: int
    counts: Counter[str]

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def mend(self, history: History) -> None:
        """Start again what ended by itself, and have the history remember it."""


Arena = TypeVar("Arena", bound=Killing)
Faults = Mapping[str, Callable[[Arena], Awaitable[None]]]

Turn = tuple[str, ...]
"""Faults that begin one soon after the other."""

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


def mix_faults(
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
    """The faults of a trial, by chance from a seed.

    `quick_to_go_on` is how often the next turn begins before time has moved again everywhere.
    """

    seed: int
    turns: Callable[[Killing], Iterable[Turn]]
    quick_to_go_on: float = 0.0
