"""How far a position is in each segment, in time, and which segment to read next (PDP-28).

Marks are the index of time over segments, so nothing else is stored. The segment with the least
time comes first. A reader that keeps to this order reads the events of all segments nearly in the
order of their times; how nearly depends on how far apart the marks are, so no bound is promised.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from noted_time.reading import MarkHistory
from noted_time.values import Succession


class Lag(NamedTuple):
    """How far a position is behind the last mark, in time: as a whole, and in each segment.

    `None` before the first mark, and if the position is before all marks that are kept. It does not
    depend on the wall clock: it grows with each mark that the position does not reach, and is 0 at
    the last cut.
    """

    behind: int | None
    segments: Mapping[int, int | None]


class SegmentTimes:
    """Where a position stands in each segment, by the marks of one domain.

    A sealed segment that was read to its end is not read again, and a successor is not read before
    its predecessors are at their ends: naming it would imply that they are.

    >>> from noted_time import Mark, MarkHistory, StreamCut, Succession
    >>> cuts = {10: {0: 100}, 20: {0: 100, 1: 50}, 40: {0: 300, 1: 70}}
    >>> marks = (Mark(n, t, 99, StreamCut(cuts[t])) for n, t in enumerate(cuts))
    >>> times = SegmentTimes(MarkHistory(marks), Succession(), {0: 200, 1: 49})
    >>> times.lowers, times.order()
    ({0: 20, 1: 10}, [1, 0])
    >>> times.lag()
    Lag(behind=30, segments={0: 20, 1: 30})
    """

    def __init__(
        self, history: MarkHistory, succession: Succession, position: Mapping[int, int]
    ) -> None:
        """Look up the position, which need not be normalised."""
        self._history = history
        self._succession = succession
        self._position: Mapping[int, int] = succession.normalise(position)
        created = dict.fromkeys(succession.created, 0)
        self._lowers = history.times({**created, **self._position} if created else self._position)

    @property
    def lowers(self) -> dict[int, int | None]:
        """By segment the time below which all its events were read, `None` before all marks."""
        return self._lowers

    def lag(self) -> Lag:
        """Return how far this is behind the last mark."""
        last = self._history.last_lower
        if last is None:
            return Lag(None, dict.fromkeys(self._lowers))
        behind = {s: None if lower is None else last - lower for s, lower in self._lowers.items()}
        return Lag(find_largest_lag(behind.values()), behind)

    def order(self, among: Collection[int] | None = None) -> list[int]:
        """Return the segments still to be read, in the order in which to read them.

        Segments before all marks come first, then those with the least time; at equal times
        predecessors first, then those with most unread, then by id.
        """
        succession, position = self._succession, self._position
        last = self._history.last
        ends = last.cut.offsets if last else {}

        def place(segment: int) -> tuple[bool, int, int, int, int]:
            lower = self._lowers.get(segment, self._history.last_lower)
            waits = succession.unread_before(segment, position)
            unread = max(0, ends.get(segment, 0) - position.get(segment, 0))
            return lower is not None, lower or 0, waits, -unread, segment

        asked = self._lowers if among is None else among
        return sorted((s for s in asked if not succession.is_read(s, position)), key=place)

    def next_segment(self, among: Collection[int] | None = None) -> int | None:
        """Return the segment to read next, of these or of all.

        `None` if none may be read now. A successor may be read once its predecessors were read to
        their ends.
        """
        unread_before, position = self._succession.unread_before, self._position
        return next((s for s in self.order(among) if not unread_before(s, position)), None)


def find_largest_lag(behind: Collection[int | None]) -> int | None:
    """Return the largest lag of some segments, 0 for no segments; an unknown lag is the largest.

    >>> find_largest_lag([3, 5]), find_largest_lag([3, None]), find_largest_lag([])
    (5, None, 0)
    """
    known = [each for each in behind if each is not None]
    return max(known, default=0) if len(known) == len(behind) else None
