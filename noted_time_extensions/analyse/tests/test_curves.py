"""The laws of the curves: each figure as a loop over rows would find it."""

from __future__ import annotations

from operator import itemgetter
from random import Random
from statistics import median
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noted_time import Rejected
from noted_time_extensions.analyse.curves import Analysis, analyse, find_rows_ahead

MANY = 17 * settings().max_examples
"""A thousand histories, and a hundred thousand with the deep profile."""


class Log(NamedTuple):
    """Rows in order of arrival, and the width of windows."""

    arrivals: list[int]
    times: list[int]
    partitions: list[int]
    window: int

    @property
    def analysis(self) -> Analysis:
        return analyse(self.arrivals, self.times, self.partitions, self.window)

    def end(self, time: int) -> int:
        """Return when the window of a time ends; without windows a time is its own."""
        return (time // self.window + 1) * self.window if self.window else time


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw histories with ties, gaps, negative times and partitions that begin late."""
    small = st.integers(-30, 60)
    rows = draw(st.lists(st.tuples(small, small, st.integers(0, 2)), min_size=1, max_size=30))
    rows.sort(key=itemgetter(0))
    arrivals, times, partitions = zip(*rows, strict=True)
    window = draw(st.sampled_from((0, 1, 7, 60)))
    return Log(list(arrivals), list(times), list(partitions), window)


def watermarks(log: Log, delay: int, *, by_partition: bool) -> list[float]:
    """Return the watermark after each row, as Spark or Flink has it."""
    largest: dict[int, int] = {}
    watermarks_found = []
    for time, partition in zip(log.times, log.partitions, strict=True):
        key = partition if by_partition else 0
        largest[key] = max(time, largest.get(key, time))
        watermark = -np.inf
        if not by_partition or largest.keys() == set(log.partitions):
            watermark = min(largest.values()) - delay
        watermarks_found.append(watermark)
    return watermarks_found


def replay_watermark(log: Log, after: list[float]) -> tuple[int, list[int], int]:
    """Return rows lost, waits, and windows still open under a watermark."""
    lost_count = 0
    watermark = -np.inf
    open_: set[int] = set()
    counted_ends: set[int] = set()
    waits = []
    for arrival, time, new_watermark in zip(log.arrivals, log.times, after, strict=True):
        end = log.end(time)
        if end <= watermark:
            lost_count += 1
        elif end not in counted_ends:
            counted_ends.add(end)
            open_.add(end)
        watermark = max(watermark, new_watermark)
        closed_ends = {end for end in open_ if end <= watermark}
        waits += [arrival - end for end in closed_ends]
        open_ -= closed_ends
    return lost_count, sorted(waits), len(open_)


@settings(max_examples=MANY)
@given(logs(), st.integers(0, 100))
def test_delay_costs_equal_a_scan_of_the_rows(log: Log, delay: int) -> None:
    """Lost rows, waits and open windows, by Spark's rule and by Flink's."""
    analysis = log.analysis

    for curve, by_partition in ((analysis.spark, False), (analysis.flink, True)):
        waits = curve.measure_waits(delay)
        costs = curve.count_lost(delay), waits.ms.tolist(), waits.still_open
        assert costs == replay_watermark(log, watermarks(log, delay, by_partition=by_partition))


@settings(max_examples=MANY // 4)
@given(logs())
def test_least_delay_loses_no_row(log: Log) -> None:
    """One ms less loses a row, and a longer delay never loses more."""
    for curve in (log.analysis.spark, log.analysis.flink):
        least_delay = curve.least_delay_ms()
        losses = [curve.count_lost(delay) for delay in range(least_delay + 1)]
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] == 0 < [1, *losses][-2]


@given(logs(), st.floats(0, 1))
def test_a_share_of_the_rows_may_be_lost(log: Log, share: float) -> None:
    """A shorter delay loses more."""
    curve = log.analysis.spark
    delay = curve.least_delay_ms(share)

    assert curve.count_lost(delay) <= share * curve.rows
    assert delay == 0 or curve.count_lost(delay - 1) > share * curve.rows - 1


@settings(max_examples=MANY // 4)
@given(logs())
def test_perfect_watermark_is_the_highest_that_loses_no_row(log: Log) -> None:
    """A row is lost if its time is below; the bound after each row is the least time to come."""
    after = [min(log.times[n:], default=-np.inf) for n in range(1, len(log.times) + 1)]
    for time, watermark in zip(log.times[1:], after, strict=False):
        assert time >= watermark
    beyond = int(log.window == 0)  # a time is complete once no row at it is to come
    _, waits, still_open = replay_watermark(log, [watermark - beyond for watermark in after])

    perfect = log.analysis.perfect
    assert perfect.ms.tolist() == sorted(max(0, wait) for wait in waits)
    assert perfect.still_open == still_open


@given(logs(), st.randoms())
def test_rows_are_ordered_by_arrival(log: Log, mixed: Random) -> None:
    """The order of the input does not matter, if no two rows arrived at once."""
    apart = log._replace(arrivals=[arrival * 100 + n for n, arrival in enumerate(log.arrivals)])
    rows = list(zip(apart.arrivals, apart.times, apart.partitions, strict=True))
    mixed.shuffle(rows)
    arrivals, times, partitions = zip(*rows, strict=True)

    analysis = analyse(arrivals, times, partitions, log.window)
    expected = apart.analysis
    assert analysis.flink.needed.tolist() == expected.flink.needed.tolist()
    assert analysis.find_behind(partitions) == expected.find_behind(apart.partitions)


@given(logs())
def test_lateness_is_counted_by_partition(log: Log) -> None:
    """Each partition has the number of late rows, the median lateness and the largest."""
    largest = log.times[0]
    late = dict[str, list[int]]()
    for time, partition in zip(log.times, log.partitions, strict=True):
        largest = max(largest, time)
        if time < largest:
            late.setdefault(str(partition), []).append(largest - time)

    partitions_behind = log.analysis.find_behind(log.partitions)
    expected = {name: (len(ms), median(ms), max(ms)) for name, ms in late.items()}
    assert {partition.name: partition[1:] for partition in partitions_behind} == expected
    worst_ms = [partition.worst_ms for partition in partitions_behind]
    assert worst_ms == sorted((max(ms) for ms in late.values()), reverse=True)


@settings(max_examples=MANY // 4)
@given(logs(), st.integers(0, 40))
def test_least_delay_ignores_rows_ahead_of_their_arrival(log: Log, ahead: int) -> None:
    """A row is ahead of its arrival. If most rows are, none is ignored."""
    expected = []
    for n, (arrival, time) in enumerate(zip(log.arrivals, log.times, strict=True)):
        if time - arrival > ahead:
            expected.append(n)
    if 2 * len(expected) > len(log.times):
        expected = []
    left_out = find_rows_ahead(log.arrivals, log.times, ahead)
    arrivals = np.delete(log.arrivals, left_out)
    times = np.delete(log.times, left_out)
    partitions = np.delete(log.partitions, left_out)
    other_analysis = analyse(arrivals, times, partitions, log.window)

    needed_delays = [0]
    largest = -(10**6)
    for n, time in enumerate(log.times):
        if n not in expected:
            needed_delays.append(max(0, largest - log.end(time) + 1))
            largest = max(largest, time)
    assert (left_out.tolist(), other_analysis.spark.least_delay_ms()) == (
        expected,
        max(needed_delays),
    )


@settings(max_examples=MANY // 4)
@given(logs())
def test_least_delay_names_the_row_that_set_the_time(log: Log) -> None:
    """It is the first row with the time that the row with the greatest need is behind."""
    owed = None
    least_delay = 0
    setter = 0
    for n, time in enumerate(log.times):
        need = log.times[setter] - log.end(time) + 1
        if n and need > least_delay:
            least_delay = need
            owed = setter
        if time > log.times[setter]:
            setter = n

    assert (log.analysis.worst_row, log.analysis.spark.least_delay_ms()) == (owed, least_delay)


def test_open_windows_leave_no_p99() -> None:
    """At a delay of an hour, ten of twenty windows have no result yet."""
    minutes = [minute * 60_000 for minute in range(20)]
    waits = analyse(minutes, minutes, window_ms=60_000).spark.measure_waits(600_000)

    assert (len(waits.ms), waits.still_open, waits.p99_ms) == (9, 11, None)
    assert (waits.median_ms, waits.longest_ms) == (600_000, 600_000)


def test_one_row_in_an_open_window_has_no_waits() -> None:
    waits = analyse([5], [3], window_ms=10).spark.measure_waits(0)

    assert (waits.median_ms, waits.longest_ms, waits.still_open) == (None, None, 1)


@pytest.mark.parametrize(
    ("arrivals", "times", "window", "says"),
    [([], [], 0, "0 arrivals, 0 times"), ([1], [1, 2], 0, "2 times"), ([1], [1], -1, "of -1 ms")],
)
def test_invalid_input_of_an_analysis_is_refused(
    arrivals: list[int], times: list[int], window: int, says: str
) -> None:
    with pytest.raises(Rejected, match=says):
        analyse(arrivals, times, window_ms=window)
