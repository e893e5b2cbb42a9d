"""Rows whose local time is in an hour that their zone had twice."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

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


def resolve_twice(
    first: Times, second: Times, partitions: NDArray[Any], arrivals: Times | None
) -> tuple[Times, Times, NDArray[np.int64]]:
    """Return the times of the rows, another reading of them, and the rows that it doubts.

    In the other reading, a row that steps back is in the hour that is nearer to the rows before it.
    That is clear for a partition if no row steps back then.
    """
    times, other, doubted = first.copy(), first.copy(), list[Any]()
    for unordered in group_rows(partitions):
        part = unordered
        if arrivals is not None:
            part = unordered[np.argsort(arrivals[unordered], kind="stable")]
        early, late = first[part], second[part]
        largest = np.maximum.accumulate(early)
        for at in _split_hours(np.flatnonzero(early != late), early):
            near = early[: at[0]] > early[at[0]] - HOURS_BEFORE_MS
            clear = CLEAR_STEP * (largest - early)[: at[0]][near].max(initial=0)
            nearer = _read_nearer(early[at], late[at], largest[at[0]], clear)
            other[part[at]] = nearer
            if _find_disorder(early[at]) > clear >= _find_disorder(nearer):
                times[part[at]] = nearer
            else:
                doubted.append(part[at])
    return times, other, np.concatenate([np.empty(0, np.int64), *doubted])


def describe_hours(times: Times, second: Times, zone: tzinfo) -> Iterator[str]:
    """Name the hours with rows, of each autumn."""
    for at in _split_hours(np.arange(len(times)), times):
        length = int(second[at[0]] - times[at[0]])
        floor = floor_time(int(times[at[0]]), length, zone)
        start = (EPOCH + timedelta(milliseconds=floor)).astimezone(zone)
        end = start + timedelta(milliseconds=length)
        lie = "lies" if len(at) == 1 else "lie"
        yield (
            f"{pluralize(len(at), 'row')} {lie} between {start:%H:%M} and {end:%H:%M} of "
            f"{start:%Y-%m-%d}, which {zone} had twice"
        )


def _split_hours(at: NDArray[np.int64], times: Times) -> Iterator[NDArray[np.int64]]:
    """Split rows by the hour that they are in: there is at most one in half a year."""
    for group in group_rows(times[at] // (YEAR_MS // 2)) if len(at) else ():
        yield at[group]


def _find_disorder(times: Times) -> int:
    return int((np.maximum.accumulate(times) - times).max())


def _read_nearer(first: Times, second: Times, reached: int, clear: int) -> Times:
    found = np.empty(len(first), np.int64)
    for n, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        found[n] = other if clear < reached - one >= other - reached else one
        reached = max(reached, int(found[n]))
    return found
