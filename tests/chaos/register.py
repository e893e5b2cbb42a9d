"""Whether the lower of a domain, as callers heard it, is one register over all replicas.

Operations are looks and notes. A look is an answer with the domain's lower, to a note or to a
follower; it takes effect between `begun`, when its last try was made, and `ended`. A note is known
by its time, and by when it was sent first.

Checked is linearizability of that register alone, which only rises, at moments of the service's
own choice: such a history is linearizable if the looks, ordered by their lowers, obey real time.

- A look that begins after another ended does not tell less, whichever replicas were asked.
- No look tells more than the largest time of the notes that were sent before it ended.

Not checked here: that a note counts from its acknowledgement on (`notes last` and `marks are sound`
of `docs/explain/chaos.md` are about that), the exact bound by the slowest writer (`marks are
sound`), and any order between two domains.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple


class Look(NamedTuple):
    """An answer with the lower, `None` before the first mark, and between which moments it came."""

    begun: float
    ended: float
    lower: int | None

    @property
    def value(self) -> float:
        """What to compare: nothing is below every time."""
        return float("-inf") if self.lower is None else self.lower


def went_back(looks: Sequence[Look]) -> list[str]:
    """Return the looks that tell less than one that ended before they began.

    >>> overlapping, later = Look(0.0, 2.0, 5), Look(2.5, 3.0, 5)
    >>> went_back([Look(0.0, 1.0, 7), overlapping])
    []
    >>> went_back([Look(0.0, 1.0, 7), overlapping, later])
    ['5 at 2.5 to 3.0 after 7 at 0.0 to 1.0']
    """
    by_end, known, found = sorted(looks, key=attrgetter("ended")), 0, list[str]()
    highest = Look(0.0, 0.0, None)
    for look in sorted(looks, key=attrgetter("begun")):
        while by_end[known].ended < look.begun:
            highest = max(highest, by_end[known], key=attrgetter("value"))
            known += 1
        if look.value < highest.value:
            found.append(f"{_shown(look)} after {_shown(highest)}")
    return found


def unfounded(looks: Sequence[Look], sent: Sequence[tuple[float, int]]) -> list[str]:
    """Return the looks that tell more than any time that was sent, as (moment, time), before.

    >>> unfounded([Look(0.0, 1.0, 5), Look(0.0, 3.0, 7)], sent=[(0.5, 5), (2.0, 7)])
    []
    >>> unfounded([Look(0.0, 1.0, 7)], sent=[(0.5, 5), (2.0, 7)])
    ['7 at 0.0 to 1.0, and 5 was noted']
    """
    largest, at, found = float("-inf"), 0, list[str]()
    for look in sorted(looks, key=attrgetter("ended")):
        while at < len(sent) and sent[at][0] <= look.ended:
            largest = max(largest, sent[at][1])
            at += 1
        if look.value > largest:
            found.append(f"{_shown(look)}, and {largest} was noted")
    return found


def _shown(look: Look) -> str:
    return f"{look.lower} at {look.begun} to {look.ended}"
