"""Tracks the newest timestamp of each segment, without reading records.

A log may report the record with the largest timestamp (Kafka's KIP-734) before readers see it. It
counts once it is below the visible end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Stamp(NamedTuple):
    """The timestamp of a record in ms, and its offset."""

    time: int
    offset: int


class NewestTimes:
    """The newest timestamps of the visible records of each segment.

    An invisible record is kept until it is visible, and newer ones are not kept meanwhile, so
    endless overlapping transactions do not stop the time.

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
        """Return the time of each segment that has new or invisible records.

        Segments in `active` have invisible records. A time is at most `now`, and `None` if unknown.
        """
        times: dict[int, int | None] = {}
        for segment, end in ends.items():
            self._look(segment, newest.get(segment), end)
            is_new = end != self._ends.get(segment, 0)
            if is_new or segment in self._waiting or segment in active:
                newest_time = self._known.get(segment)
                times[segment] = None if newest_time is None else min(newest_time, now)
        self._ends = dict(ends)
        return times

    def _look(self, segment: int, newest_stamp: Stamp | None, end: int) -> None:
        waiting_stamp = self._waiting.pop(segment, None)
        for stamp in (waiting_stamp, newest_stamp):
            if stamp is None:
                continue
            if stamp.offset < end:
                self._known[segment] = max(stamp.time, self._known.get(segment, stamp.time))
            else:
                self._waiting.setdefault(segment, stamp)
