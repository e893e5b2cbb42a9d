"""Tells whether the timestamps of records are event times or arrival times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from noted_time.extending import group_rows, pluralize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.int64]
    Mask = NDArray[np.bool_]

SECOND_MS = 1000

PRODUCER_ROWS = 10
"""A producer with fewer rows is judged with the others of its partition."""

EQUAL_SHARE = 0.95

LARGE_PRIME = 1_000_000_007

SHOWN_PERCENT = 1


def find_event_timestamps(
    times: Times, timestamps: Times, partitions: NDArray[Any], producers: Times
) -> Mask:
    """Return which rows have an event time as their timestamp, not an arrival time.

    The rows of each partition are in the order of offsets. A producer sets such timestamps if they
    equal the event times of nearly all its rows, to the coarser unit of both. They are also none if
    they step back as far as the event times do, and by over a second, as of several threads.

    >>> times, hour = np.array([0, 3_600_000, 1_800_000]), 3_600_000
    >>> same = np.zeros(3, np.int64)
    >>> find_event_timestamps(times, times, same, same).tolist()
    [True, True, True]
    >>> find_event_timestamps(times, times + 7 * hour, same, same).tolist()
    [True, True, True]
    >>> find_event_timestamps(times, np.array([0, hour, hour + 9]), same, same).tolist()
    [False, False, False]
    """
    groups = _group_by_producer(partitions, producers)
    rows = np.bincount(groups)
    equal_rows = np.bincount(groups, _find_equal(times, timestamps, groups))
    is_equal = equal_rows >= EQUAL_SHARE * rows
    steps = _find_largest_steps(timestamps, groups)
    time_steps = _find_largest_steps(times, groups)
    steps_alike = (steps > SECOND_MS) & (steps >= time_steps - SECOND_MS)
    is_event_time: Mask = (is_equal | steps_alike)[groups]
    return is_event_time


def order_by_offset(timestamps: Times, partitions: NDArray[Any], unknown: Mask) -> Times:
    """Return arrivals, where rows without a known one came after the rows before them."""
    arrivals = timestamps.copy()
    for members in group_rows(partitions):
        latest = np.maximum.accumulate(timestamps[members])
        arrivals[members] = np.where(unknown[members], latest, timestamps[members])
    return arrivals


def describe_event_timestamps(event_time: str, unknown: Mask) -> str:
    """Describe the rows whose timestamp does not say when they came, and their share from 1 % on.

    >>> describe_event_timestamps("at", np.array([True] * 3 + [False]))[:78]
    'The timestamps of 3 rows (75.0 %) follow at, so they do not say when rows came'
    """
    number = int(np.count_nonzero(unknown))
    share = 100 * number / len(unknown)
    rows = pluralize(number, "row")
    if share >= SHOWN_PERCENT:
        rows = f"{rows} ({share:.1f} %)"
    sentence = (
        f"The timestamps of {rows} follow {event_time}, so they do not say when rows came. "
        "These rows are judged in the order of offsets"
    )
    if number < len(unknown):
        sentence += ", and waits may be longer than shown"
    return f"{sentence}."


def _group_by_producer(partitions: NDArray[Any], producers: Times) -> NDArray[np.int64]:
    """Number the producers of each partition; those with few rows share a number."""
    names = producers * LARGE_PRIME + partitions  # int64 wraps, as in a hash
    _, groups, rows = np.unique(names, return_inverse=True, return_counts=True)
    is_few = rows[groups] < PRODUCER_ROWS
    _, places = np.unique(partitions, return_inverse=True)
    groups[is_few] = len(rows) + places[is_few]
    return groups


def _find_equal(times: Times, timestamps: Times, groups: NDArray[np.int64]) -> Mask:
    """Return which rows have equal times, to the second where a producer has full seconds."""
    has_ms = np.zeros(groups.max() + 1, np.bool_)
    has_ms[groups[(times % SECOND_MS != 0) & (timestamps % SECOND_MS != 0)]] = True
    in_seconds = times // SECOND_MS == timestamps // SECOND_MS
    is_same_time: Mask = np.where(has_ms[groups], times == timestamps, in_seconds)
    return is_same_time


def _find_largest_steps(times: Times, groups: NDArray[np.int64]) -> Times:
    """Return by how much the times of each group step back, at most."""
    order = np.argsort(groups, kind="stable")
    sorted_times = times[order]
    sorted_groups = groups[order]
    distinct, ranks = np.unique(sorted_times, return_inverse=True)
    # the ranks of a group are above all earlier groups, so its maximum begins anew
    begins = sorted_groups * len(distinct)
    largest = distinct[np.maximum.accumulate(begins + ranks) - begins]
    first_rows = np.flatnonzero(np.diff(sorted_groups, prepend=-1))
    largest_steps = np.zeros(groups.max() + 1, np.int64)
    largest_steps[sorted_groups[first_rows]] = np.maximum.reduceat(
        largest - sorted_times, first_rows
    )
    return largest_steps
