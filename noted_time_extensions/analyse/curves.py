"""Compares watermarks that trail the data by a delay with the perfect watermark.

A watermark is checked after each row, as if each were a micro-batch, so a query that keeps up loses
no more rows. It trails the largest event time so far:

- Spark: of all rows.
- Flink, without idleness: the least of the largest times of all partitions, once each had a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noted_time.extending import Rejected, group_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Times = NDArray[np.int64]

NO_WATERMARK = -(2**62)
"""The watermark before the first row, without overflow in differences."""

MAX_OPEN = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class WindowWaits:
    """Waits in ms from the end of each window to its result, sorted.

    `still_open` counts windows without a result.
    """

    ms: Times
    still_open: int

    @property
    def median_ms(self) -> float | None:
        return float(np.median(self.ms)) if len(self.ms) else None

    @property
    def p99_ms(self) -> int | None:
        """The wait that 99 % do not exceed, unless more than 5 % of windows are still open."""
        closed_count = len(self.ms)
        window_count = closed_count + self.still_open
        if closed_count == 0 or self.still_open > MAX_OPEN * window_count:
            return None
        longer_count = closed_count // 100
        return int(self.ms[closed_count - longer_count - 1])

    @property
    def longest_ms(self) -> int | None:
        return int(self.ms[-1]) if len(self.ms) else None


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The cost of one kind of watermark at every delay.

    - `largest`: the time that the watermark trails, after each row.
    - `needed`: the delay that each row would have needed, if above 0, sorted.
    - `opens`: the least delay that counts at least one row of each window.
    """

    rows: int
    arrivals: Times
    largest: Times
    needed: Times
    ends: Times
    opens: Times

    def count_lost(self, delay_ms: int) -> int:
        return len(self.needed) - int(np.searchsorted(self.needed, delay_ms, "right"))

    def least_delay_ms(self, lost_share: float = 0.0) -> int:
        may_be_lost = int(lost_share * self.rows)
        if may_be_lost >= len(self.needed):
            return 0
        return int(self.needed[-1 - may_be_lost])

    def measure_waits(self, delay_ms: int) -> WindowWaits:
        ends = self.ends[self.opens <= delay_ms]
        return measure_waits(self.largest, self.arrivals, ends, delay_ms)


class RowsBehind(NamedTuple):
    """The number of rows behind or ahead in a partition, key or writer, and by how many ms."""

    name: str
    rows: int
    median_ms: float
    worst_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """The curves of the watermarks of Spark and Flink, and the waits of the perfect watermark.

    The perfect watermark is always the least event time still to arrive.

    - `late`: the numbers of the rows with a smaller event time than an earlier row.
    - `worst_row`: the number of the row whose time causes the least delay without loss, if not 0.
    """

    spark: Curve
    flink: Curve
    perfect: WindowWaits
    late: NDArray[np.int64]
    late_by: Times
    worst_row: int | None

    def find_behind(self, names: ArrayLike, max_names: int = 10) -> list[RowsBehind]:
        """Return the names with rows behind the largest earlier event time, the worst first.

        `names` has the name of each row, in the analysed order.

        >>> analyse([0, 1, 2], [5, 3, 6]).find_behind(["a", "b", "a"])
        [RowsBehind(name='b', rows=1, median_ms=2.0, worst_ms=2)]
        """
        return summarize_by_name(np.asarray(names)[self.late], self.late_by, max_names)


def summarize_by_name(
    names: NDArray[Any], delays_ms: Times, max_names: int = 10
) -> list[RowsBehind]:
    """Return the names of rows that are behind or ahead by some delay, the worst first."""
    if not len(names):
        return []
    summaries = []
    for rows in group_rows(names):
        median_ms = float(np.median(delays_ms[rows]))
        worst_ms = int(delays_ms[rows].max())
        summaries.append(RowsBehind(str(names[rows[0]]), len(rows), median_ms, worst_ms))
    summaries.sort(key=lambda summary: (-summary.worst_ms, summary.name))
    return summaries[:max_names]


def find_rows_ahead(arrivals: ArrayLike, times: ArrayLike, ahead_ms: int) -> NDArray[np.int64]:
    """Return the numbers of the rows whose time is more than `ahead_ms` beyond their arrival.

    The result is empty if most rows are ahead, such as planned departures.

    >>> find_rows_ahead([0, 1, 2], [0, 90, 1], 5).tolist()
    [1]
    """
    leads = _compute_leads(arrivals, times)
    rows_ahead = np.flatnonzero(leads > ahead_ms)
    if 2 * len(rows_ahead) > len(leads):
        return rows_ahead[:0]
    return rows_ahead


def find_lead(arrivals: ArrayLike, times: ArrayLike, ahead_ms: int) -> int | None:
    """Return the median lead in ms of the rows ahead, if most are more than `ahead_ms` ahead.

    Such times are wrong, or planned. Without them, the result is `None`.

    >>> find_lead([0, 1, 2], [90, 97, 1], 5), find_lead([0, 1, 2], [0, 90, 1], 5)
    (93, None)
    """
    leads = _compute_leads(arrivals, times)
    large_leads = leads[leads > ahead_ms]
    if 2 * len(large_leads) <= len(leads):
        return None
    return int(np.median(large_leads))


def _compute_leads(arrivals: ArrayLike, times: ArrayLike) -> Times:
    return np.asarray(times, dtype=np.int64) - np.asarray(arrivals, dtype=np.int64)


def analyse(
    arrivals: ArrayLike, times: ArrayLike, partitions: ArrayLike | None = None, window_ms: int = 0
) -> Analysis:
    """Return the cost of delays for rows with int64 Unix ms and a partition.

    Rows with the same arrival keep their order. A row is lost if the watermark has reached its
    window's end, or its time if `window_ms` is 0. Raises `Rejected` for no rows, different lengths,
    and a negative window.

    >>> day = analyse([0, 10, 20], [0, 10, 3], window_ms=5)
    >>> day.spark.count_lost(5), day.spark.count_lost(6), day.spark.least_delay_ms()
    (1, 0, 6)
    """
    arrival_times = np.asarray(arrivals, dtype=np.int64)
    event_times = np.asarray(times, dtype=np.int64)
    if partitions is None:
        parts = np.zeros(len(arrival_times), np.int64)
    else:
        parts = np.asarray(partitions)
    if not len(arrival_times) == len(event_times) == len(parts) > 0 or window_ms < 0:
        raise Rejected(
            f"{len(arrival_times)} arrivals, {len(event_times)} times and {len(parts)} partitions "
            f"with a window of {window_ms} ms: give one arrival, time and partition for each row, "
            "one row or more, and a window of 0 ms or more"
        )
    order = None
    if np.any(arrival_times[1:] < arrival_times[:-1]):
        order = np.argsort(arrival_times, kind="stable")
        arrival_times = arrival_times[order]
        event_times = event_times[order]
        parts = parts[order]
    ends = window_ends(event_times, window_ms)
    windows, firsts = np.unique(ends, return_index=True)

    def build_curve(largest: Times) -> Curve:
        needed_delays = np.zeros(len(ends), np.int64)
        np.subtract(largest[:-1], ends[1:] - 1, out=needed_delays[1:])
        opens = np.maximum(needed_delays[firsts], 0)
        sorted_delays = np.sort(needed_delays[needed_delays > 0])
        return Curve(len(ends), arrival_times, largest, sorted_delays, windows, opens)

    largest = np.maximum.accumulate(event_times)
    spark = build_curve(largest)
    flink = spark
    if np.any(parts != parts[0]):
        flink = build_curve(_find_least_of_largest(event_times, parts))
    late = np.flatnonzero(event_times < largest)
    worst_row = None
    if len(spark.needed):  # the first row with the time that the worst row is behind
        worst = np.argmax(largest[:-1] - ends[1:])
        worst_row = int(np.searchsorted(largest, largest[worst]))
    late_by = (largest - event_times)[late]
    if order is not None:
        late = order[late]
        worst_row = None if worst_row is None else int(order[worst_row])
    return Analysis(
        spark,
        flink,
        _measure_perfect(event_times, arrival_times, windows, beyond=int(window_ms == 0)),
        late,
        late_by,
        worst_row,
    )


def window_ends(times: Times, window_ms: int) -> Times:
    return times if window_ms == 0 else (times // window_ms + 1) * window_ms


def measure_waits(watermark: Times, arrivals: Times, ends: Times, beyond: int = 0) -> WindowWaits:
    """Return the waits until the watermark reaches the ends, or passes them if `beyond` is 1."""
    closed_by = np.searchsorted(watermark, ends + beyond)
    is_closed = closed_by < len(watermark)
    wait_times = arrivals[closed_by[is_closed]] - ends[is_closed]
    open_count = len(ends) - np.count_nonzero(is_closed)
    return WindowWaits(np.sort(wait_times), int(open_count))


def _measure_perfect(times: Times, arrivals: Times, ends: Times, beyond: int) -> WindowWaits:
    """Return the waits for the least time still to arrive, unknown after the last row."""
    still_to_come = np.minimum.accumulate(times[:0:-1])[::-1]
    waits = measure_waits(still_to_come, arrivals, ends, beyond)
    return WindowWaits(np.maximum(waits.ms, 0), waits.still_open)


def _find_least_of_largest(times: Times, partitions: NDArray[np.int64]) -> Times:
    least_of_largest = np.full(len(times), np.iinfo(np.int64).max)
    for rows in group_rows(partitions):
        largest = np.concatenate(([NO_WATERMARK], np.maximum.accumulate(times[rows])))
        counts = np.diff(rows, prepend=0, append=len(times))
        np.minimum(least_of_largest, np.repeat(largest, counts), out=least_of_largest)
    return least_of_largest
