"""Watermarks that trail the data by a delay, and the perfect one, over rows in order of arrival.

A watermark is judged row by row, as if each were a micro-batch: no engine can judge finer, and a
query that keeps up loses no more. It trails the largest event time so far: of all rows (Spark), or
the least of the partitions' largest (Flink without idleness; none before each had a row).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noted_time.values import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    Times = NDArray[np.int64]

NO_WATERMARK = -(2**62)
"""The watermark before any row: below every time, and far enough from the least integer."""

MAX_OPEN = 0.05
"""The share of windows still open from which the slowest closed ones do not tell the p99."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowWaits:
    """How long after the end of each window its result came, sorted, in ms.

    `still_open` windows have no result when the rows end: they are in none of the figures.
    """

    ms: Times
    still_open: int

    @property
    def median_ms(self) -> float | None:
        """The median; `None` if no window was closed."""
        return float(np.median(self.ms)) if len(self.ms) else None

    @property
    def p99_ms(self) -> int | None:
        """What 99 % do not exceed; `None` with more than 5 % still open, which might be slower."""
        closed = len(self.ms)
        if not closed or self.still_open > MAX_OPEN * (closed + self.still_open):
            return None
        return int(self.ms[-(-closed * 99 // 100) - 1])

    @property
    def longest_ms(self) -> int | None:
        """The longest; `None` if no window was closed."""
        return int(self.ms[-1]) if len(self.ms) else None


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """What one kind of watermark costs at every delay.

    `needed` has, sorted, the delay that each row would have needed, where that is not 0; `largest`
    what the watermark trails after each row. `ends` are the windows with a row, sorted, and `opens`
    the delay at which at least one row of each is counted.
    """

    rows: int
    arrivals: Times
    largest: Times
    needed: Times
    ends: Times
    opens: Times

    def count_lost(self, delay_ms: int) -> int:
        """Return how many rows come after their window was closed, at a delay >= 0."""
        return len(self.needed) - int(np.searchsorted(self.needed, delay_ms, "right"))

    def least_delay_ms(self, lost_share: float = 0.0) -> int:
        """Return the least delay that loses at most this share of the rows; hindsight knows it."""
        may_be_lost = int(lost_share * self.rows)
        return 0 if may_be_lost >= len(self.needed) else int(self.needed[-1 - may_be_lost])

    def measure_waits(self, delay_ms: int) -> WindowWaits:
        """Return the waits of the windows that have a row at this delay."""
        return measure_waits(
            self.largest, self.arrivals, self.ends[self.opens <= delay_ms], delay_ms
        )


class RowsBehind(NamedTuple):
    """The rows of one partition, key or writer that are behind, or ahead: how many, how many ms."""

    name: str
    rows: int
    median_ms: float
    worst_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """The curves of Spark's and Flink's watermark, and the waits of the perfect one.

    The perfect watermark is, at each moment, the least event time still to come: it loses no row,
    and no other that loses none is above it. No window has its result before its end.

    `late` are the numbers of the rows with a smaller event time than one before them, and `late_by`
    by how many ms. `owed_to` is the number of the row whose time made the least delay without loss
    as long as it is, `None` if that is 0.
    """

    spark: Curve
    flink: Curve
    perfect: WindowWaits
    late: NDArray[np.int64]
    late_by: Times
    owed_to: int | None

    def find_behind(self, names: ArrayLike, most: int = 10) -> list[RowsBehind]:
        """Return whose rows are behind the largest event time before them, the worst first.

        `names` says whose each row is, in the order that was analysed.

        >>> analyse([0, 1, 2], [5, 3, 6]).find_behind(["a", "b", "a"])
        [RowsBehind(name='b', rows=1, median_ms=2.0, worst_ms=2)]
        """
        return summarize_by_name(np.asarray(names)[self.late], self.late_by, most)


def summarize_by_name(names: NDArray[Any], ms: Times, most: int = 10) -> list[RowsBehind]:
    """Return whose rows are behind, or ahead, by how many ms, the worst first."""
    found = []
    for rows in group_rows(names) if len(names) else ():
        median, worst = float(np.median(ms[rows])), int(ms[rows].max())
        found.append(RowsBehind(str(names[rows[0]]), len(rows), median, worst))
    return sorted(found, key=lambda each: (-each.worst_ms, each.name))[:most]


def find_rows_ahead(arrivals: ArrayLike, times: ArrayLike, ahead_ms: int) -> NDArray[np.int64]:
    """Return the numbers of the rows whose time is more than `ahead_ms` beyond their arrival.

    There are none if most rows are: they have times in the future, such as planned departures, or
    arrivals by another clock.

    >>> find_rows_ahead([0, 1, 2], [0, 90, 1], 5).tolist()
    [1]
    >>> find_rows_ahead([0, 1], [9, 9], 5).tolist()
    []
    """
    came, of_event = (np.asarray(each, dtype=np.int64) for each in (arrivals, times))
    ahead = np.flatnonzero(of_event - came > ahead_ms)
    return ahead if 2 * len(ahead) <= len(came) else ahead[:0]


def analyse(
    arrivals: ArrayLike, times: ArrayLike, partitions: ArrayLike | None = None, window_ms: int = 0
) -> Analysis:
    """Return what delays cost: int64 Unix ms by row, and which partition each row is of.

    Rows that arrived at the same time are taken in their order here. A row is lost if the watermark
    has reached its window's end, or with `window_ms` 0 its own time. Raises `Rejected` for no rows,
    for arrays of different lengths, and for a window below 0.

    >>> day = analyse([0, 10, 20], [0, 10, 3], window_ms=5)
    >>> day.spark.count_lost(5), day.spark.count_lost(6), day.spark.least_delay_ms()
    (1, 0, 6)
    """
    came, of_event = (np.asarray(each, dtype=np.int64) for each in (arrivals, times))
    parts = np.zeros(len(came), np.int64) if partitions is None else np.asarray(partitions)
    if not len(came) == len(of_event) == len(parts) > 0 or window_ms < 0:
        raise Rejected(
            f"{len(came)} arrivals, {len(of_event)} times and {len(parts)} partitions with a "
            f"window of {window_ms} ms: each row needs one of each, there has to be a row, and a "
            "window is 0 or longer"
        )
    order = None
    if np.any(came[1:] < came[:-1]):
        order = np.argsort(came, kind="stable")
        came, of_event, parts = came[order], of_event[order], parts[order]
    ends = window_ends(of_event, window_ms)
    windows, firsts = np.unique(ends, return_index=True)

    def curve(largest: Times) -> Curve:
        needed = np.zeros(len(ends), np.int64)
        np.subtract(largest[:-1], ends[1:] - 1, out=needed[1:])
        opens = np.maximum(needed[firsts], 0)
        return Curve(len(ends), came, largest, np.sort(needed[needed > 0]), windows, opens)

    largest = np.maximum.accumulate(of_event)
    spark, late = curve(largest), np.flatnonzero(of_event < largest)
    owed_to = None
    if len(spark.needed):  # to the first row with the time that the worst row is behind
        worst = np.argmax(largest[:-1] - ends[1:])
        owed_to = int(np.searchsorted(largest, largest[worst]))
        owed_to = owed_to if order is None else int(order[owed_to])
    return Analysis(
        spark,
        spark if np.all(parts == parts[0]) else curve(_find_least_of_largest(of_event, parts)),
        _measure_perfect(of_event, came, windows, beyond=int(window_ms == 0)),
        late if order is None else order[late],
        (largest - of_event)[late],
        owed_to,
    )


def window_ends(times: Times, window_ms: int) -> Times:
    """Return when the window of each time ends; without windows a time is its own."""
    return times if window_ms == 0 else (times // window_ms + 1) * window_ms


def measure_waits(watermark: Times, arrivals: Times, ends: Times, beyond: int = 0) -> WindowWaits:
    """Return the waits for a watermark that has to come so far beyond the ends."""
    closed_by = np.searchsorted(watermark, ends + beyond)
    closed = closed_by < len(watermark)
    waited = arrivals[closed_by[closed]] - ends[closed]
    return WindowWaits(np.sort(waited), int(len(ends) - np.count_nonzero(closed)))


def _measure_perfect(times: Times, arrivals: Times, ends: Times, beyond: int) -> WindowWaits:
    """Return the waits under the least time still to come; what follows the last row is unknown.

    A time is complete only when the least to come is beyond it, as rows at it are not lost.
    """
    still_to_come = np.minimum.accumulate(times[:0:-1])[::-1]
    waits = measure_waits(still_to_come, arrivals, ends, beyond)
    return WindowWaits(np.maximum(waits.ms, 0), waits.still_open)


def _find_least_of_largest(times: Times, partitions: NDArray[np.int64]) -> Times:
    """Return the least of the partitions' largest times after each row."""
    least = np.full(len(times), np.iinfo(np.int64).max)
    for rows in group_rows(partitions):
        largest = np.concatenate(([NO_WATERMARK], np.maximum.accumulate(times[rows])))
        np.minimum(
            least, np.repeat(largest, np.diff(rows, prepend=0, append=len(times))), out=least
        )
    return least


def group_rows(partitions: NDArray[Any]) -> Iterable[NDArray[np.int64]]:
    """Return the numbers of the rows of each partition, in order."""
    by_partition = np.argsort(partitions, kind="stable")
    names = partitions[by_partition]
    bounds = np.flatnonzero(names[1:] != names[:-1]) + 1
    return np.split(by_partition, bounds)
