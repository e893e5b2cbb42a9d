"""Which timestamps of records are arrival times, by producer."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from noted_time_extensions.analyse.reading.timestamps import find_event_timestamps, order_by_offset

HOUR_MS = 3_600_000
ROWS = 200
CHANCE = Random(7)


def draw_times(unit_ms: int) -> list[int]:
    """Return event times in the order of offsets, with some that are up to an hour late."""
    times = [n * 60_001 - CHANCE.choice((0, 0, CHANCE.randrange(HOUR_MS))) for n in range(ROWS)]
    return [time // unit_ms * unit_ms for time in times]


def draw_arrivals() -> list[int]:
    """Return when records arrive, within a second after they were sent, as by several threads."""
    return [n * 60_001 + 2000 + CHANCE.randrange(900) for n in range(ROWS)]


PRODUCERS = {
    "event time": (draw_times(1), None, True),
    "event time in seconds": (draw_times(1000), None, True),
    "event time of another zone": (draw_times(1), 7 * HOUR_MS, True),
    "arrival": (draw_times(1), draw_arrivals(), False),
    "arrival, of events in order": ([n * 60_001 for n in range(ROWS)], draw_arrivals(), False),
}


@pytest.mark.parametrize("partitions", [1, 3])
def test_producers_of_a_partition_are_told_apart(partitions: int) -> None:
    """Each is judged by its own rows, wherever they are among the others."""
    rows = []
    for producer, (times, arrivals, expected) in enumerate(PRODUCERS.values()):
        for n, time in enumerate(times):
            if isinstance(arrivals, list):
                timestamp = arrivals[n]
            elif arrivals is not None:
                timestamp = time + arrivals
            elif n % 2 == 1 and time % 1000 == 0:
                timestamp = time + 700
            else:
                timestamp = time
            rows.append((n, producer, time, timestamp, expected))
    columns = np.array(sorted(rows)).T
    _, producers, times, timestamps, expected = columns

    are_event_times = find_event_timestamps(times, timestamps, producers % partitions, producers)
    assert are_event_times.tolist() == expected.astype(bool).tolist()


def test_producers_with_few_rows_are_judged_together() -> None:
    """Keys that differ in each row are no producers."""
    times = np.array(draw_times(1))
    arrivals = np.array(draw_arrivals())
    keys = np.arange(ROWS)
    arrivals[5] = times[5]

    same_keys = np.zeros(ROWS, np.int64)
    assert not find_event_timestamps(times, arrivals, same_keys, keys).any()
    assert find_event_timestamps(times, times + HOUR_MS, same_keys, keys).all()


def test_rows_without_an_arrival_came_after_those_before_them() -> None:
    timestamps = np.array([10, 90, 20, 70, 30])
    partitions = np.array([0, 1, 0, 0, 0])
    unknown = np.array([False, False, False, True, True])

    assert order_by_offset(timestamps, partitions, unknown).tolist() == [10, 90, 20, 70, 70]
