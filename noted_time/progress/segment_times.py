"""Computes a position's time in each segment, and which segment to read next (PDP-28)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from noted_time.reading import MarkHistory
from noted_time.values import Succession


class Lag(NamedTuple):
    """How far a position is behind the last mark, in time.

    It is 0 at the last cut, and `None` without marks or before all kept marks.
    """

    lag: int | None
    segments: Mapping[int, int | None]


class SegmentTimes:
    """The time of a position in each segment, by the marks of one domain.

    All events of a segment below its time, `None` before all marks, were read. A successor is read
    only after its predecessors, because an offset in it implies their ends.

    >>> from noted_time import Mark, StreamCut
    >>> from noted_time.reading import MarkHistory
    >>> from noted_time.values import Succession
    >>> cuts = {10: {0: 100}, 20: {0: 100, 1: 50}, 40: {0: 300, 1: 70}}
    >>> marks = (Mark(n, t, 99, StreamCut(cuts[t])) for n, t in enumerate(cuts))
    >>> times = SegmentTimes(MarkHistory(marks), Succession(), {0: 200, 1: 49})
    >>> times.lowers, times.order()
    ({0: 20, 1: 10}, [1, 0])
    >>> times.lag()
    Lag(lag=30, segments={0: 20, 1: 30})
    """

    def __init__(
        self, history: MarkHistory, succession: Succession, position: Mapping[int, int]
    ) -> None:
        self._history = history
        self._succession = succession
        self._position: Mapping[int, int] = succession.normalise(position)
        created_offsets = dict.fromkeys(succession.created, 0)
        self.lowers = history.times({**created_offsets, **self._position})

    def lag(self) -> Lag:
        """Return how far the position is behind the last mark."""
        last_lower = self._history.last_lower
        if last_lower is None:
            return Lag(None, dict.fromkeys(self.lowers))
        lags: dict[int, int | None] = {}
        for segment, lower in self.lowers.items():
            lags[segment] = None if lower is None else last_lower - lower
        return Lag(find_largest_lag(lags.values()), lags)

    def order(self, segments_to_order: Collection[int] | None = None) -> list[int]:
        """Return the segments that are not read to their ends, in reading order.

        Segments before all marks come first, then the least time. At equal times: predecessors,
        then most unread rows, then the lowest id.
        """
        succession = self._succession
        position = self._position
        last_mark = self._history.last
        ends = last_mark.cut.offsets if last_mark else {}

        def place(segment: int) -> tuple[bool, int, int, int, int]:
            lower = self.lowers.get(segment, self._history.last_lower)
            unread_predecessors = succession.unread_before(segment, position)
            unread_rows = max(0, ends.get(segment, 0) - position.get(segment, 0))
            return lower is not None, lower or 0, unread_predecessors, -unread_rows, segment

        segments = self.lowers if segments_to_order is None else segments_to_order
        return sorted(
            (segment for segment in segments if not succession.is_read(segment, position)),
            key=place,
        )

    def next_segment(self, among: Collection[int] | None = None) -> int | None:
        """Return the segment to read next, or `None`."""
        unread_before = self._succession.unread_before
        position = self._position
        return next(
            (segment for segment in self.order(among) if not unread_before(segment, position)), None
        )


def find_largest_lag(lags: Collection[int | None]) -> int | None:
    """Return the largest lag of segments, 0 without segments; an unknown lag is the largest."""
    known_lags = [lag for lag in lags if lag is not None]
    if len(known_lags) != len(lags):
        return None
    return max(known_lags, default=0)
