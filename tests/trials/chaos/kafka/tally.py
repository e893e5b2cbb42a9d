"""The result of a trial's query: the records of each second and partition, counted."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tools.trials.kafka import Record

WINDOW_MS = 1000


class Counted(NamedTuple):
    """The records of a partition in a window: its second, their number, the sum of their offsets.

    Two of these differ if a record is missing, repeated or replaced by another.
    """

    second: int
    partition: int
    rows: int
    offsets: int


Batches = Mapping[int, Sequence[Sequence[Counted]]]
"""The rows of each batch, once for each time that it ran."""


def count_records(records: Iterable[Record]) -> list[Counted]:
    """Return the true result.

    >>> count_records([Record(0, 5, 1999), Record(0, 7, 1000)])
    [Counted(second=1, partition=0, rows=2, offsets=12)]
    """
    rows = Counter[tuple[int, int]]()
    offsets = Counter[tuple[int, int]]()
    for record in records:
        key = record.time // WINDOW_MS, record.partition
        rows[key] += 1
        offsets[key] += record.offset
    return [Counted(*key, rows[key], offsets[key]) for key in rows]


def find_output(batches: Batches) -> list[Counted]:
    """Return the rows of the last run of each batch."""
    rows: list[Counted] = []
    for runs in batches.values():
        rows += runs[-1]
    return rows
