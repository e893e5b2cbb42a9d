"""Rows whose local time is in an hour that their zone had twice."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noted_time.extending import EPOCH, HOUR_MS, YEAR_MS, floor_time, group_rows, pluralize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from numpy.typing import NDArray

    Times = NDArray[np.int64]

CLEAR_STEP = 10
"""A step back by more than so many times the disorder before is a change of the clock."""

HOURS_BEFORE_MS = 6 * HOUR_MS


class ResolvedTimes(NamedTuple):
    """The times of rows, with ambiguous hours read as the first occurrence or as the second.

    Both readings are possible for `doubted_rows`.
    """

    times: Times
    other_times: Times
    doubted_rows: NDArray[np.int64]


def resolve_twice(
    first: Times, second: Times, partitions: NDArray[Any], arrivals: Times | None
) -> ResolvedTimes:
    """Return the times of rows with two possible times, `first` and `second`.

    In the other reading, a row that steps back is in the hour that is nearer to the rows before it.
    That is clear for a partition if no row steps back then.
    """
    times = first.copy()
    other_times = first.copy()
    doubted_rows = [np.empty(0, np.int64)]
    for partition_rows in group_rows(partitions):
        part = partition_rows
        if arrivals is not None:
            part = partition_rows[np.argsort(arrivals[partition_rows], kind="stable")]
        early = first[part]
        late = second[part]
        largest = np.maximum.accumulate(early)
        for hour_rows in _split_hours(np.flatnonzero(early != late), early):
            begin = hour_rows[0]
            is_near = early[:begin] > early[begin] - HOURS_BEFORE_MS
            clear_step = CLEAR_STEP * (largest - early)[:begin][is_near].max(initial=0)
            nearer = _read_nearer(early[hour_rows], late[hour_rows], largest[begin], clear_step)
            rows = part[hour_rows]
            other_times[rows] = nearer
            if _find_disorder(early[hour_rows]) > clear_step >= _find_disorder(nearer):
                times[rows] = nearer
            else:
                doubted_rows.append(rows)
    return ResolvedTimes(times, other_times, np.concatenate(doubted_rows))


def describe_hours(times: Times, second: Times, zone: tzinfo) -> Iterator[str]:
    """Name the hours with rows, of each autumn."""
    for hour_rows in _split_hours(np.arange(len(times)), times):
        length = int(second[hour_rows[0]] - times[hour_rows[0]])
        floor = floor_time(int(times[hour_rows[0]]), length, zone)
        start = (EPOCH + timedelta(milliseconds=floor)).astimezone(zone)
        end = start + timedelta(milliseconds=length)
        lie = "lies" if len(hour_rows) == 1 else "lie"
        yield (
            f"{pluralize(len(hour_rows), 'row')} {lie} between {start:%H:%M} and {end:%H:%M} of "
            f"{start:%Y-%m-%d}, which {zone} had twice"
        )


def _split_hours(rows: NDArray[np.int64], times: Times) -> Iterator[NDArray[np.int64]]:
    """Group rows by clock change: there are at most two a year."""
    if not len(rows):
        return
    for group in group_rows(times[rows] // (YEAR_MS // 2)):
        yield rows[group]


def _find_disorder(times: Times) -> int:
    return int((np.maximum.accumulate(times) - times).max())


def _read_nearer(first: Times, second: Times, largest: int, clear_step: int) -> Times:
    """Return the second time of each row whose first one steps back clearly, else the first."""
    times = np.empty(len(first), np.int64)
    for place, (first_time, second_time) in enumerate(
        zip(first.tolist(), second.tolist(), strict=True)
    ):
        step_back = largest - first_time
        is_nearer_second = step_back >= second_time - largest
        times[place] = second_time if clear_step < step_back and is_nearer_second else first_time
        largest = max(largest, int(times[place]))
    return times
