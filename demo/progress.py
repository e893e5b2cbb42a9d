"""How far a replay is, in days and rows: bars on a terminal, else a line every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from rich.progress import Progress

from demo.data import DAY_MS, Flight
from demo.schedule import Step

PLAIN_INTERVAL_S = 10.0

Describe = Callable[[int], str]
"""A number of done parts → how far that is."""


class Part(NamedTuple):
    """A part of a replay: the clock at its end (Unix ms), and its rows."""

    clock: int
    row_count: int


def divide_by_steps(steps: Iterable[Step]) -> list[Part]:
    return [Part(step.clock, sum(map(len, step.landed.values()))) for step in steps]


def divide_by_batches(batches: Iterable[Sequence[Flight]]) -> list[Part]:
    return [Part(batch[-1].landing, len(batch)) for batch in batches]


def describe_parts(parts: Sequence[Part]) -> Describe:
    """Return a function that says how far a number of parts is.

    >>> describe = describe_parts([Part(0, 1000), Part(DAY_MS, 500), Part(DAY_MS + 1, 0)])
    >>> describe(0), describe(2)
    ('day 0 of 2, 0 of 1,500 rows', 'day 2 of 2, 1,500 of 1,500 rows')
    """
    row_counts = [0, *accumulate(part.row_count for part in parts)]
    days = [0, *((part.clock - parts[0].clock) // DAY_MS + 1 for part in parts)]

    def describe(part_count: int) -> str:
        index = min(part_count, len(parts))
        return f"day {days[index]} of {days[-1]}, {row_counts[index]:,} of {row_counts[-1]:,} rows"

    return describe


class Bar:
    """Shows how many of `total` parts are done, each time it is called with their number."""

    def __init__(
        self, bars: Progress, description: str, total: int, describe: Describe | None
    ) -> None:
        self._bars = bars
        self._description = description
        self._total = total
        self._describe = describe or (lambda part_count: f"{part_count:,} of {total:,}")
        self._task = bars.add_task(description, total=total, status="")
        self._shown_at = time.monotonic()
        if bars.disable:
            bars.console.print(description)

    def __call__(self, part_count: int) -> None:
        done_count = min(part_count, self._total)
        status = self._describe(done_count)
        self._bars.update(self._task, completed=done_count, status=status)
        if not self._bars.disable or time.monotonic() < self._shown_at + PLAIN_INTERVAL_S:
            return
        self._shown_at = time.monotonic()
        self._bars.console.print(f"{self._description}: {status}", highlight=False, soft_wrap=True)
