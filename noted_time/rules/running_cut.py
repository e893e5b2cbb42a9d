"""The stream cut of one domain, updated as its watermark advances.

Rows written after a writer noted T belong to its first note above T, so a cut must cover them
exactly when its lower is above T. All positions noted after the same T are joined.

It keeps invariant 1 of docs/explain/theory.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

from noted_time.values import StreamCut, join_into

FEW_WAITING = 1000
"""Scanning more positions is faster than popping each."""

OFFSETS_KEPT = 1 << 15


class RunningCut:
    """The join of all positions below the watermark, and the later positions by their times.

    >>> cut = RunningCut(lower=4)
    >>> for after, position in ((3, {0: 60}), (5, {0: 70}), (5, {1: 3}), (9, {0: 80})):
    ...     cut.add(after, position)
    >>> cut.at(5), cut.at(9)
    (StreamCut({0: 60}), StreamCut({0: 70, 1: 3}))
    """

    __slots__ = ("_limit", "_lower", "_passed", "_size", "_times", "_waiting")

    def __init__(self, lower: int, passed_cut: StreamCut | None = None) -> None:
        self._lower = lower
        self._passed = dict(passed_cut.offsets) if passed_cut else {}
        self._times: list[int] = []
        self._waiting: dict[int, dict[int, int]] = {}
        self._size = 0
        self._limit = OFFSETS_KEPT

    def add(self, after: int, position: Mapping[int, int]) -> None:
        """Include `position` in every cut whose lower is above `after`."""
        if after < self._lower:
            join_into(self._passed, position)
            return
        waiting_position = self._waiting.get(after)
        if waiting_position is None:
            self._waiting[after] = dict(position)
            heappush(self._times, after)
            self._size += len(position)
        else:
            size_before = len(waiting_position)
            for segment, offset in position.items():  # a call is slower
                if offset > waiting_position.get(segment, -1):
                    waiting_position[segment] = offset
            self._size += len(waiting_position) - size_before
        if self._size > self._limit:
            self._thin()

    def at(self, lower: int) -> StreamCut:
        self._lower = lower
        for _ in range(FEW_WAITING):
            if not self._times or self._times[0] >= lower:
                return StreamCut(dict(self._passed))
            position = self._waiting.pop(heappop(self._times))
            self._size -= len(position)
            join_into(self._passed, position)
        self._pass_many(lower)
        return StreamCut(dict(self._passed))

    def _pass_many(self, lower: int) -> None:
        passed_position = self._passed
        later_positions = {}
        for after, position in self._waiting.items():
            if after >= lower:
                later_positions[after] = position
                continue
            for segment, offset in position.items():
                if offset > passed_position.get(segment, -1):
                    passed_position[segment] = offset
        self._waiting = later_positions
        self._times = sorted(later_positions)
        self._size = self._count_waiting()

    def preview(self, lower: int) -> StreamCut:
        cut = dict(self._passed)
        for after in self._times:
            if after < lower:
                join_into(cut, self._waiting[after])
        return StreamCut(cut)

    def complete(self, floor: Mapping[int, int], segments: frozenset[int]) -> None:
        for position in (self._passed, *self._waiting.values()):
            if not segments.isdisjoint(position):
                join_into(position, floor)
        self._size = self._count_waiting()

    def _thin(self) -> None:
        """Halve the number of offsets by joining neighbouring positions at the earliest time.

        This is sound, because a cut may be larger than necessary.
        """
        kept_positions: dict[int, dict[int, int]] = {}
        joined_position = dict[int, int]()
        joined_count = 0
        for time in sorted(self._waiting):
            position = self._waiting[time]
            if joined_count >= 2 * len(joined_position):
                joined_position = kept_positions[time] = position
                joined_count = len(position)
                continue
            joined_count += len(position)
            join_into(joined_position, position)
        self._waiting = kept_positions
        self._times = list(kept_positions)
        self._size = self._count_waiting()
        self._limit = max(OFFSETS_KEPT, 2 * self._size)

    def _count_waiting(self) -> int:
        return sum(map(len, self._waiting.values()))
