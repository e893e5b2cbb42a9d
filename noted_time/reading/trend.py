"""Shows how a domain's watermark advanced over wall time, which may step back."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from operator import sub
from typing import NamedTuple

from msgspec import Struct

from noted_time.values import UNIX_MS

NAMES_PER_POINT = 10

MARKS_SEARCHED = 1000

MARKS_AT_ONCE = 4096
"""The marks processed at once, in 0.2 ms."""

Run = tuple[int, int]
"""The marks from an index to another, exclusive."""


class Point(Struct, frozen=True):
    """The last mark of a slot of time, and the largest lag in the slot.

    `lag_ms` is how far the lower was behind the wall clock just before a mark, `None` if times are
    not Unix ms. `excluded` has at most 10 writers.
    """

    at: int
    seq: int
    lower: int
    upper: int
    upper_is_bound: bool
    marks: int
    lag_ms: int | None
    excluded: tuple[str, ...]
    excluded_marks: int


class Trend(NamedTuple):
    """The marks of one domain at one moment, for any thread.

    It uses the first `marks` in the arrays of a `MarkHistory`. The marks in `stepped_back` were
    written before their predecessors.
    """

    first_seq: int
    marks: int
    lowers: array[int]
    uppers: array[int]
    written: array[int]
    bounds: bytearray
    excluded: Mapping[int, Sequence[str]]
    excluding: array[int]
    stepped_back: array[int]

    @property
    def first_at(self) -> int | None:
        return self.written[0] if self.marks else None

    def points(self, start: int, end: int, slot_count: int) -> list[Point]:
        """Return a point for each slot of time from `start` to `end` (inclusive) that has marks.

        >>> from noted_time import Mark, StreamCut
        >>> from noted_time.reading import MarkHistory
        >>> trend = MarkHistory(Mark(n, n, n, StreamCut({}), 10 * n) for n in range(1, 7)).trend()
        >>> [(point.at, point.seq, point.marks) for point in trend.points(20, 59, 2)]
        [(30, 3, 2), (50, 5, 2)]
        """
        span = end + 1 - start
        slots: dict[int, list[Run]] = {}
        for run_start, run_stop in self._runs():
            index = bisect_left(self.written, start, run_start, run_stop)
            stop_of_run = bisect_right(self.written, end, index, run_stop)
            while index < stop_of_run:
                slot = (self.written[index] - start) * slot_count // span
                next_slot = start - (slot + 1) * span // -slot_count
                end_of_slot = bisect_left(self.written, next_slot, index, stop_of_run)
                slots.setdefault(slot, []).append((index, end_of_slot))
                index = end_of_slot
        return [self._point(slots[slot]) for slot in sorted(slots)]

    def lower_before(self, wall_ms: int) -> int | None:
        return self._lower_before(wall_ms, [*self._runs()])

    def lags(self, moments: Sequence[int]) -> list[int | None]:
        """Return how far the lower, if any and in Unix ms, was behind the clock at each moment."""
        runs = [*self._runs()]
        lags: list[int | None] = []
        for moment in moments:
            lower = self._lower_before(moment + 1, runs)
            if lower is not None and lower in UNIX_MS:
                lags.append(moment - lower)
            else:
                lags.append(None)
        return lags

    def _lower_before(self, wall_ms: int, runs: Sequence[Run]) -> int | None:
        for run_start, run_stop in reversed(runs):
            index = bisect_left(self.written, wall_ms, run_start, run_stop) - 1
            if index >= run_start:
                return self.lowers[index]
        return None

    def _runs(self) -> Iterator[Run]:
        borders = [0]
        for seq in self.stepped_back:
            index = seq - self.first_seq
            if 0 < index < self.marks:
                borders.append(index)
        return pairwise([*borders, self.marks])

    def _point(self, runs: Sequence[Run]) -> Point:
        last_index = runs[-1][1] - 1
        lags: list[int] = []
        excluding_seqs: list[int] = []
        for run_start, run_stop in runs:
            lags += self._list_largest_lags(run_start, run_stop)
            excluding_seqs += self._excluding(run_start, run_stop)
        return Point(
            at=self.written[last_index],
            seq=self.first_seq + last_index,
            lower=self.lowers[last_index],
            upper=self.uppers[last_index],
            upper_is_bound=bool(self.bounds[last_index]),
            marks=sum(run_stop - run_start for run_start, run_stop in runs),
            lag_ms=max(lags, default=None),
            excluded=self._name_excluded(excluding_seqs),
            excluded_marks=len(excluding_seqs),
        )

    def _list_largest_lags(self, run_start: int, run_stop: int) -> Iterator[int]:
        """Yield the largest lag of each part of a run whose lowers are in Unix ms."""
        lowers = self.lowers
        run_start = max(run_start, bisect_left(lowers, UNIX_MS.start, 0, self.marks) + 1)
        run_stop = min(run_stop, bisect_left(lowers, UNIX_MS.stop, 0, self.marks) + 1)
        for start in range(run_start, run_stop, MARKS_AT_ONCE):
            stop = min(start + MARKS_AT_ONCE, run_stop)
            yield max(map(sub, self.written[start:stop], lowers[start - 1 : stop - 1]))

    def _excluding(self, run_start: int, run_stop: int) -> array[int]:
        seqs = self.excluding
        start = bisect_left(seqs, self.first_seq + run_start)
        return seqs[start : bisect_left(seqs, self.first_seq + run_stop, start)]

    def _name_excluded(self, seqs: Iterable[int]) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for seq in islice(seqs, MARKS_SEARCHED):
            names.update(dict.fromkeys(self.excluded.get(seq, ())))
            if len(names) >= NAMES_PER_POINT:
                break
        return tuple(islice(names, NAMES_PER_POINT))
