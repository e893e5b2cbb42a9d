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

TWO_AT_ONCE = 0.2


def each_once(faults: Sequence[str]) -> Iterator[Turn]:
    """Have one fault after the other.

    >>> list(each_once(["kill", "pause"]))
    [('kill',), ('pause',)]
    """
    return ((fault,) for fault in faults)


def mixed(
    faults: Sequence[str], chance: random.Random, goes_on: Callable[[], bool]
) -> Iterator[Turn]:
    """Have faults by chance, often a kill and sometimes two at once, as long as it goes on."""
    while goes_on():
        first = _one(faults, chance)
        second = _one(faults, chance) if chance.random() < TWO_AT_ONCE else first
        yield (first,) if second == first else (first, second)


def _one(faults: Sequence[str], chance: random.Random) -> str:
    kills = [fault for fault in faults if fault in KILLS]
    return chance.choice(kills if kills and chance.random() < KILLING else list(faults))
