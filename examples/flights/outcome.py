"""What a method gave, simulated or measured: the rows it lost, and how late its results came."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from examples.flights.data import HOUR_MS


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
        """How people call the method."""
        if self.delay_ms is None:
            return "noted time"
        return f"own watermark, {self.delay_ms / HOUR_MS:g} h"

    @property
    def lost_percent(self) -> float:
        """The part of the rows that was lost, in percent."""
        return 100 * self.lost / self.rows if self.rows else 0.0

    @property
    def median_hours(self) -> float:
        """The median latency in hours; not a number where no window was given out."""
        return median(self.latencies_ms) / HOUR_MS if self.latencies_ms else float("nan")

    @property
    def longest_hours(self) -> float:
        """The longest latency in hours; not a number where no window was given out."""
        return max(self.latencies_ms) / HOUR_MS if self.latencies_ms else float("nan")
