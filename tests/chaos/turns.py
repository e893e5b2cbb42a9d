"""Which faults follow which."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

    from tests.chaos.trial import Turn

KILLS = ("kill-owner", "kill", "kill-all")
KILLING = 0.55
"""How often a turn of a mixed trial is a kill, where that is among the faults."""

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
    """Have faults by chance, often a kill and sometimes several, as long as it goes on."""
    while goes_on():
        (count,) = chance.choices(range(1, len(TOGETHER) + 1), TOGETHER)
        yield tuple(dict.fromkeys(_one(faults, chance) for _ in range(count)))


def _one(faults: Sequence[str], chance: random.Random) -> str:
    kills = [fault for fault in faults if fault in KILLS]
    return chance.choice(kills if kills and chance.random() < KILLING else list(faults))
