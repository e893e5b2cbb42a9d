"""How the watermark of one domain moved over wall time: thinned to points, and how far it lagged.

Wall time may step back from one mark to the next. Between such steps a moment is found by
bisection, so the cost of a question rises with the number of steps.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import sub
from typing import NamedTuple

from noted_time.values import UNIX_MS

NAMES_PER_POINT = 10
"""Maximum number of excluded writers that a point names."""

MARKS_SEARCHED = 1000
"""Maximum number of marks searched for their names."""

MARKS_AT_ONCE = 4096
"""Number of marks visited in one go, which blocks other threads for 0.2 ms."""

Run = tuple[int, int]
"""Marks from an index up to another, exclusive."""


@dataclass(frozen=True, slots=True)
class Point:
    """The last mark of a slot of time, and the largest lag of the `marks` written in it.

    `lag_ms` is how far the lower was behind the wall clock just before a mark; null if it is not
    known or not in Unix ms. `excluded` names at most 10 writers that marks in the slot excluded,
    `excluded_marks` counts these marks.
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
    """The marks of one domain as they were at one moment; any thread may read it.

    It has the columns of a `MarkHistory`, but uses only the first `marks` marks. `excluding` has
    the seqs of the marks that excluded a writer, `stepped_back` the seqs of those written before
    their predecessor by the wall clock.
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
        """When the first mark that is kept was written, `None` without one."""
        return self.written[0] if self.marks else None

    def points(self, start: int, end: int, most: int) -> list[Point]:
        """Return the marks written from `start` to `end`, both inclusive, as at most `most` points.

        The time between is cut into that many slots of equal length. Each slot with a mark gives
        one point, so each mark is in exactly one. `start` must not be above `end`.

        >>> from noted_time import Mark, MarkHistory, StreamCut
        >>> trend = MarkHistory(Mark(n, n, n, StreamCut({}), 10 * n) for n in range(1, 7)).trend()
        >>> [(point.at, point.seq, point.marks) for point in trend.points(20, 59, 2)]
        [(30, 3, 2), (50, 5, 2)]
        """
        span = end + 1 - start
        slots: dict[int, list[Run]] = {}
        for first, stop in self._runs():
            index = bisect_left(self.written, start, first, stop)
            beyond = bisect_right(self.written, end, index, stop)
            while index < beyond:
                slot = (self.written[index] - start) * most // span
                next_slot = start - (slot + 1) * span // -most
                until = bisect_left(self.written, next_slot, index, beyond)
                slots.setdefault(slot, []).append((index, until))
                index = until
        return [self._point(slots[slot]) for slot in sorted(slots)]

    def lower_before(self, wall_ms: int) -> int | None:
        """Return the lower of the last mark written before `wall_ms`, `None` if there is none.

        >>> from noted_time import Mark, MarkHistory, StreamCut
        >>> trend = MarkHistory(Mark(n, n, n, StreamCut({}), 10 * n) for n in range(1, 7)).trend()
        >>> [trend.lower_before(wall_ms) for wall_ms in (10, 11, 99)]
        [None, 1, 6]
        """
        return self._lower_before(wall_ms, [*self._runs()])

    def lags(self, moments: Sequence[int]) -> list[int | None]:
        """Return by how much the lower was behind the wall clock at each of these moments.

        `None` before the first mark, and if the lower is not in Unix ms.
        """
        runs = [*self._runs()]
        lowers = [self._lower_before(moment + 1, runs) for moment in moments]
        return [
            moment - lower if lower is not None and lower in UNIX_MS else None
            for moment, lower in zip(moments, lowers, strict=True)
        ]

    def _lower_before(self, wall_ms: int, runs: Sequence[Run]) -> int | None:
        for first, beyond in reversed(runs):
            index = bisect_left(self.written, wall_ms, first, beyond) - 1
            if index >= first:
                return self.lowers[index]
        return None

    def _runs(self) -> Iterator[Run]:
        """Yield the runs within which wall time does not step back, in the order of seq."""
        steps = (seq - self.first_seq for seq in self.stepped_back)
        return pairwise([0, *(index for index in steps if 0 < index < self.marks), self.marks])

    def _point(self, runs: Sequence[Run]) -> Point:
        last = runs[-1][1] - 1
        lags = [lag for run in runs if (lag := self._largest_lag(*run)) is not None]
        excluding = [seqs for run in runs for seqs in self._excluding(*run)]
        return Point(
            at=self.written[last],
            seq=self.first_seq + last,
            lower=self.lowers[last],
            upper=self.uppers[last],
            upper_is_bound=bool(self.bounds[last]),
            marks=sum(until - first for first, until in runs),
            lag_ms=max(lags, default=None),
            excluded=self._name_excluded(excluding),
            excluded_marks=len(excluding),
        )

    def _largest_lag(self, first: int, until: int) -> int | None:
        """Return the largest lag of the marks whose predecessor has a Unix time."""
        lowers = self.lowers
        first = max(first, bisect_left(lowers, UNIX_MS.start, 0, self.marks) + 1)
        until = min(until, bisect_left(lowers, UNIX_MS.stop, 0, self.marks) + 1)
        return max(
            (
                max(map(sub, self.written[start:stop], lowers[start - 1 : stop - 1]))
                for start in range(first, until, MARKS_AT_ONCE)
                for stop in (min(start + MARKS_AT_ONCE, until),)
            ),
            default=None,
        )

    def _excluding(self, first: int, until: int) -> array[int]:
        """Return the seqs of the marks that excluded a writer."""
        seqs = self.excluding
        start = bisect_left(seqs, self.first_seq + first)
        return seqs[start : bisect_left(seqs, self.first_seq + until, start)]

    def _name_excluded(self, seqs: Iterable[int]) -> tuple[str, ...]:
        found = (
            name for seq in islice(seqs, MARKS_SEARCHED) for name in self.excluded.get(seq, ())
        )
        names: dict[str, None] = {}
        for name in found:
            names[name] = None
            if len(names) == NAMES_PER_POINT:
                break
        return tuple(names)
