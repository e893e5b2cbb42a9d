"""How far the timestamps of segments have come, by the newest record of each, none being read.

A log may name the record with the largest timestamp of a segment at once (Kafka's KIP-734). It is
one of all that were written, also in transactions that no reader sees yet. Such a record counts
once it lies below the end of what is visible: all records beyond that end come after it, so none of
them is older than it by more than records come out of order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Stamp(NamedTuple):
    """The timestamp of a record in ms, and its offset."""

    time: int
    offset: int


class NewestTimes:
    """The newest timestamps of the visible records of each segment, by look.

    A record that is not visible yet is kept until it is, and newer ones are not kept beside it. So
    if transactions overlap for ever, what is known is late by at most two of them.

    >>> newest = NewestTimes()
    >>> newest.take({0: Stamp(700, 4)}, {0: 4}, now=1000)  # in an open transaction
    {0: None}
    >>> newest.take({0: Stamp(900, 8)}, {0: 6}, now=1000)
    {0: 700}
    """

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}
        self._waiting: dict[int, Stamp] = {}
        self._known: dict[int, int] = {}

    def take(
        self,
        newest: Mapping[int, Stamp],
        ends: Mapping[int, int],
        *,
        now: int,
        active: Collection[int] = (),
    ) -> dict[int, int | None]:
        """Return the time of each segment that has new records, or some that are not visible.

        `newest` has the record with the largest timestamp of each segment that has any, and `ends`
        where the visible ones end. Segments that are `active` have some that are not visible. A
        time is `None` if none is known, and at most `now`: a record from the future counts as one
        of the present at each look that finds new records beside it.
        """
        found: dict[int, int | None] = {}
        for segment, end in ends.items():
            self._look(segment, newest.get(segment), end)
            is_new = end != self._ends.get(segment, 0)
            if is_new or segment in self._waiting or segment in active:
                known = self._known.get(segment)
                found[segment] = None if known is None else min(known, now)
        self._ends = dict(ends)
        return found

    def _look(self, segment: int, newest: Stamp | None, end: int) -> None:
        waiting = self._waiting.pop(segment, None)
        for stamp in (waiting, newest):
            if stamp is None:
                continue
            if stamp.offset < end:
                self._known[segment] = max(stamp.time, self._known.get(segment, stamp.time))
            else:
                self._waiting.setdefault(segment, stamp)
