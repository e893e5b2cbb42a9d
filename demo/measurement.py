"""Lost rows and latency in replay time, from what a query emitted, micro-batch by micro-batch.

A micro-batch emits what the watermark of the batches before it closes. So a window needed the input
up to the end of the batch before the one that emitted it, and the replay's clock there, less the
window's end, is its latency: the speed of the machine does not matter.

* Under Spark's own watermark, batches end exactly where the newest departure passes a full hour.
* Under noted time, batches are cut by size, so the input that a window needed is taken from the
  marks: the cut of the first mark whose lower reaches the window's end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from demo.data import HOUR_MS, Flight
from demo.replay import Replayed

if TYPE_CHECKING:
    from demo.query import Count, Run


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one method over the same `rows` rows.

    `delay_ms` is that of Spark's own watermark, `None` for noted time. `lost` rows are missing from
    windows that were given out or closed. `latencies_ms` holds, sorted, for each hourly window that
    was given out, the replay time from its end until the input had reached far enough for it.

    >>> Outcome(delay_ms=None, rows=4, lost=1, latencies_ms=(HOUR_MS, 3 * HOUR_MS)).median_hours
    2.0
    """

    delay_ms: int | None
    rows: int
    lost: int
    latencies_ms: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the method for people."""
        if self.delay_ms is None:
            return "noted time"
        return f"own watermark, {self.delay_ms / HOUR_MS:g} h"

    @property
    def lost_percent(self) -> float:
        """The part of the rows that was lost, in percent."""
        return 100 * self.lost / self.rows if self.rows else 0.0

    @property
    def median_hours(self) -> float:
        """The median latency in hours; not a number if no window was given out."""
        return median(self.latencies_ms) / HOUR_MS if self.latencies_ms else float("nan")

    @property
    def longest_hours(self) -> float:
        """The longest latency in hours; not a number if no window was given out."""
        return max(self.latencies_ms) / HOUR_MS if self.latencies_ms else float("nan")


Truth = dict[tuple[int, str], int]
"""(end of the hour in Unix ms, origin) → flights that departed in it."""

Cuts = dict[int, dict[int, int]]
"""End of the hour in Unix ms → cut of the first mark whose lower reaches it."""


def own_outcome(run: Run, delay_hours: int, truth: Truth, landed: Sequence[Flight]) -> Outcome:
    """Return the outcome of Spark's own watermark at one delay; `landed` is the input, in order."""
    delay_ms = delay_hours * HOUR_MS
    latencies = sorted(
        landed[run.read[number - 1] - 1].landing - end
        for end, number in came_in(run, delay_hours).items()
    )
    lost = lost_rows(given_out(run, delay_hours), truth, run.watermark - delay_ms)
    return Outcome(delay_ms, sum(truth.values()), lost, tuple(latencies))


def noted_outcome(run: Run, truth: Truth, replayed: Replayed, cuts: Cuts) -> Outcome:
    """Return the outcome of noted time."""
    latencies = sorted(replayed.clock_at(cuts[end]) - end for end in came_in(run, 0))
    lost = lost_rows(given_out(run, 0), truth, run.watermark)
    return Outcome(None, sum(truth.values()), lost, tuple(latencies))


def given_out(run: Run, delay_hours: int) -> Iterator[tuple[int, Count]]:
    """Yield (batch, count) for each row of the result that belongs to the delay."""
    for number, counts in run.given_out.items():
        for count in counts:
            if count.delay_hours == delay_hours:
                yield number, count


def came_in(run: Run, delay_hours: int) -> dict[int, int]:
    """Return which batch emitted each window: end in Unix ms → number of the batch."""
    return {count.end: number for number, count in given_out(run, delay_hours)}


def lost_rows(counts: Iterator[tuple[int, Count]], truth: Truth, watermark: int) -> int:
    """Count the rows that are missing from the windows up to `watermark`, in ms.

    Later windows are still open, their rows not lost. A row too many is as wrong as a row too few,
    and counts as much.
    """
    counted: Counter[tuple[int, str]] = Counter()
    for _, count in counts:
        counted[count.end, count.origin] += count.flights
    closed = {group: flights for group, flights in truth.items() if group[0] <= watermark}
    return sum(abs(closed.get(group, 0) - counted[group]) for group in closed.keys() | counted)
