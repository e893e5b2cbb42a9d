"""What has to hold of a query's output, held against all committed records of its topic."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from demo.trials.kafka import Record

WINDOW_MS = 1000


class Counted(NamedTuple):
    """The records of a partition in a window: the second it begins, how many, their offsets' sum.

    Two of these that differ show a record too few or too many, also if one replaced another.
    """

    second: int
    partition: int
    rows: int
    offsets: int


Batches = Mapping[int, Sequence[Sequence[Counted]]]
"""What each batch gave out, once for each time that it ran."""

Tally = Mapping[tuple[int, int], Counted]


def true_tally(records: Iterable[Record]) -> Tally:
    """Count the records themselves, by window and partition.

    >>> true_tally([Record(0, 5, 1999), Record(0, 7, 1000)])
    {(1, 0): Counted(second=1, partition=0, rows=2, offsets=12)}
    """
    rows: Counter[tuple[int, int]] = Counter()
    offsets: Counter[tuple[int, int]] = Counter()
    for record in records:
        key = record.time // WINDOW_MS, record.partition
        rows[key] += 1
        offsets[key] += record.offset
    return {key: Counted(*key, rows[key], offsets[key]) for key in rows}


def output_tally(batches: Batches) -> Tally:
    """Return what the batches gave out, the last where one came twice."""
    given = [row for _, runs in sorted(batches.items()) for row in runs[-1]]
    return {(row.second, row.partition): row for row in given}


def lost_rows(true: Tally, output: Tally) -> int:
    """Return how many records are missing in the output.

    >>> lost_rows({(1, 0): Counted(1, 0, 5, 10)}, {(1, 0): Counted(1, 0, 3, 7)})
    2
    """
    counted = {key: row.rows for key, row in output.items()}
    return sum(max(0, row.rows - counted.get(key, 0)) for key, row in true.items())


def wrong_windows(true: Tally, output: Tally) -> list[str]:
    """Return the windows whose records are not those of the topic.

    >>> wrong_windows({(1, 0): Counted(1, 0, 5, 10)}, {})
    ['(1, 0) has None, not Counted(second=1, partition=0, rows=5, offsets=10)']
    """
    return [
        f"{key} has {output.get(key)}, not {true.get(key)}"
        for key in sorted(true.keys() | output.keys())
        if true.get(key) != output.get(key)
    ]


def repeated_windows(batches: Batches) -> list[str]:
    """Return the windows that more than one batch gave out.

    >>> one = Counted(1, 0, 5, 10)
    >>> repeated_windows({3: [[one]], 4: [[one]]})
    ['(1, 0) came in the batches [3, 4]']
    """
    came: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, runs in sorted(batches.items()):
        for row in runs[-1]:
            came[row.second, row.partition].append(number)
    return [f"{key} came in the batches {numbers}" for key, numbers in came.items() if numbers[1:]]


def changed_batches(batches: Batches) -> list[str]:
    """Return the batches that gave out something else when they were run again.

    >>> changed_batches({3: [[Counted(1, 0, 5, 10)], []]})
    ['batch 3 gave out [[Counted(second=1, partition=0, rows=5, offsets=10)], []]']
    """
    return [
        f"batch {number} gave out {list(runs)}"
        for number, runs in batches.items()
        if any(run != runs[0] for run in runs)
    ]
