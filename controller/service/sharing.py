"""How controllers share the buckets: what one of them does after a look at the leases; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from random import Random

    from controller.store.port import Leases


class Share(NamedTuple):
    """What to take of the free buckets, and what to give of one's own; one of them is empty."""

    take: frozenset[int] = frozenset()
    give: frozenset[int] = frozenset()


def share(leases: Leases, chance: Random) -> Share:
    """Return what brings this controller to its share: all buckets by all controllers, rounded up.

    Each decides for itself. Nobody has more than its share in the end and no bucket stays free,
    as the shares together are at least all. Which free ones to take is left to chance, so that two
    that look at once seldom try for the same.

    >>> from controller.store.port import Leases
    >>> from random import Random
    >>> share(Leases(4, frozenset((0, 1, 2)), {}, replicas=2), Random(1))
    Share(take=frozenset(), give=frozenset({2}))
    >>> share(Leases(4, frozenset((0, 1)), {2: "http://b"}, replicas=2), Random(1))
    Share(take=frozenset(), give=frozenset())
    """
    fair = -(-leases.buckets // leases.replicas)
    room = fair - len(leases.mine)
    if room < 0:
        return Share(give=frozenset(sorted(leases.mine)[room:]))
    free = sorted(leases.free)
    return Share(take=frozenset(chance.sample(free, min(room, len(free)))))
