"""What of a cut a mark's row has: the offsets that moved since the mark before, or all of them.

A row is *whole* if it has all of them. That is the first row that is kept, the first that a store
writes to a chain, and any that would follow on so many others that they took as much room as the
cut does. So rows take at most twice the room of what moved, however many segments were ever named,
and the last cut is read from rows of at most twice its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controller.store.port import AppendedMark
from controller.store.rows import Values, mark_row
from noted_time import Mark

ROW = 8
"""How many offsets take about as much room as the other columns of a row."""


class Tail(NamedTuple):
    """The last mark of a chain as it was written, and the cost of the rows since the whole one.

    A segment that does not move costs nothing:

    >>> from noted_time import Mark, StreamCut
    >>> first = Mark(1, 5, 9, StreamCut(dict.fromkeys(range(40), 7)))
    >>> tail, stored = following(None, first)
    >>> tail.cost, len(stored)
    (0, 40)
    >>> tail, stored = following(tail, Mark(2, 6, 9, first.cut.join(StreamCut({3: 8}))))
    >>> tail.cost, stored
    (9, {3: 8})
    """

    seq: int
    offsets: Mapping[int, int]
    cost: int = 0


Tails = dict[tuple[str, str], Tail]
"""The tails of chains by (stream id, domain)."""


def following(before: Tail | None, mark: Mark) -> tuple[Tail, Mapping[int, int]]:
    """Return the tail with the next mark, and what its row has: all offsets if the cost is 0."""
    offsets = mark.cut.offsets
    if before is not None and before.offsets.keys() <= offsets.keys():
        known = before.offsets
        moved = {s: offset for s, offset in offsets.items() if known.get(s) != offset}
        cost = before.cost + ROW + len(moved)
        if cost < len(offsets):
            return Tail(mark.seq, offsets, cost), moved
    return Tail(mark.seq, offsets), offsets


def mark_rows(marks: Iterable[AppendedMark], tails: Tails) -> list[Values]:
    """Return the rows of marks, and have their chains in `tails` end with them."""
    found = []
    for appended in marks:
        chain = appended.stream_id, appended.domain
        tail, stored = following(tails.get(chain), appended.mark)
        tails[chain] = tail
        found.append(mark_row(appended, stored, whole=not tail.cost))
    return found
