"""Measures lost rows and latency in replay time, by the output of micro-batches.

A micro-batch emits the windows that the batches before it closed. A window's latency is the
replay's clock at the end of the batch before, less the window's end, on a machine of any speed.

* Under Spark's own watermark, a batch ends with each minute where an hour can close.
* Under noted time, batches are cut by size, so the input that a window needed is taken from the
  marks: the cut of the first mark whose lower reaches the window's end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from demo.data import HOUR_MS, MINUTE_MS, Flight
from demo.replay import Replayed


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one method over `rows` rows.

    `delay_ms` is the delay of Spark's own watermark, `None` for noted time. `lost` rows are missing
    from closed windows. `latencies_ms` has for each emitted hourly window, sorted, the replay time
    from its end to the necessary input.

    >>> Outcome(delay_ms=None, rows=4, lost=1, latencies_ms=(HOUR_MS, 3 * HOUR_MS)).median_hours
    2.0
    """

    delay_ms: int | None
    rows: int
    lost: int
    latencies_ms: tuple[int, ...]

    @property
    def name(self) -> str:
        if self.delay_ms is None:
            return "noted time"
        return f"own watermark, {format_delay(self.delay_ms)}"

    @property
    def lost_percent(self) -> float:
        return 100 * self.lost / self.rows if self.rows else 0.0

    @property
    def median_hours(self) -> float:
        """The median latency in hours, NaN without windows."""
        return median(self.latencies_ms) / HOUR_MS if self.latencies_ms else float("nan")

    @property
    def longest_hours(self) -> float:
        """The longest latency in hours, NaN without windows."""
        return max(self.latencies_ms) / HOUR_MS if self.latencies_ms else float("nan")


@dataclass(frozen=True, slots=True)
class Findings:
    """Spark's measurements and the simulation's predictions, noted time first.

    `measured` ends after noted time if Spark's own watermark was not run. `incidents` are
    sentences.
    """

    measured: tuple[Outcome, ...]
    predicted: tuple[Outcome, ...]
    incidents: tuple[str, ...] = ()

    @property
    def agree(self) -> bool:
        return self.measured == self.predicted[: len(self.measured)]

    @property
    def shown(self) -> tuple[Outcome, ...]:
        """The measured outcomes, or the predicted ones."""
        return (*self.measured, *self.predicted[len(self.measured) :])

    @property
    def own_source(self) -> str:
        return "measured" if len(self.measured) > 1 else "simulated"


class Count(NamedTuple):
    """A row of a result: departures from `origin` in the hour up to `end` (Unix ms).

    `delay_hours` is the delay of Spark's own watermark, 0 for noted time.
    """

    delay_hours: int
    end: int
    origin: str
    flights: int


@dataclass(slots=True)
class Run:
    """The micro-batches of one query by number.

    `given_out` is the result, `read` counts the rows read by each batch's end, and `watermark` is
    the last one, in ms.
    """

    given_out: dict[int, list[Count]] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    watermark: int = 0

    def take_progress(self, progress: Iterable[dict[str, Any]]) -> None:
        """Add Spark's report of each batch, in order."""
        read_count = 0
        for batch in progress:
            read_count += batch["sources"][0]["numInputRows"]
            self.read[batch["batchId"]] = read_count
            self.watermark = max(self.watermark, unix_ms(batch["eventTime"]["watermark"]))


def unix_ms(instant: str) -> int:
    """Return the Unix ms of an instant of Spark.

    >>> unix_ms("1970-01-01T00:00:01.500Z")
    1500
    """
    return round(datetime.fromisoformat(instant).timestamp() * 1000)


Truth = dict[tuple[int, str], int]
"""(end of the hour in Unix ms, origin) → flights that departed in it."""

Cuts = dict[int, dict[int, int]]
"""End of the hour in Unix ms → cut of the first mark whose lower reaches it."""


def format_delay(delay_ms: int) -> str:
    """Return a delay in hours and full minutes.

    >>> format_delay(2 * HOUR_MS), format_delay(606 * MINUTE_MS)
    ('2 h', '10 h 6 min')
    """
    hours, minutes = divmod(delay_ms // MINUTE_MS, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def compute_own_outcome(
    run: Run, delay_hours: int, truth: Truth, landed_flights: Sequence[Flight]
) -> Outcome:
    """Return the outcome of Spark's own watermark at one delay; `landed_flights` is ordered."""
    delay_ms = delay_hours * HOUR_MS
    latencies = []
    for end, number in find_batches(run, delay_hours).items():
        last_flight = landed_flights[run.read[number - 1] - 1]
        latencies.append(last_flight.landing - end)
    lost_count = count_lost(list_results(run, delay_hours), truth, run.watermark - delay_ms)
    return Outcome(delay_ms, sum(truth.values()), lost_count, tuple(sorted(latencies)))


def compute_noted_outcome(run: Run, truth: Truth, replay_result: Replayed, cuts: Cuts) -> Outcome:
    latencies = sorted(replay_result.clock_at(cuts[end]) - end for end in find_batches(run, 0))
    lost_count = count_lost(list_results(run, 0), truth, run.watermark)
    return Outcome(None, sum(truth.values()), lost_count, tuple(latencies))


def list_results(run: Run, delay_hours: int) -> Iterator[tuple[int, Count]]:
    """Yield (batch, count) for each row of the delay's result."""
    for number, counts in run.given_out.items():
        for count in counts:
            if count.delay_hours == delay_hours:
                yield number, count


def find_batches(run: Run, delay_hours: int) -> dict[int, int]:
    """Return the batch that emitted each window: end in Unix ms → batch."""
    return {count.end: number for number, count in list_results(run, delay_hours)}


def count_lost(counts: Iterator[tuple[int, Count]], truth: Truth, watermark: int) -> int:
    """Count the rows missing from windows up to `watermark` in ms.

    Later windows are still open. A row too many counts like a row too few.
    """
    counted_flights: Counter[tuple[int, str]] = Counter()
    for _, count in counts:
        counted_flights[count.end, count.origin] += count.flights
    closed_windows = {group: flights for group, flights in truth.items() if group[0] <= watermark}
    lost_count = 0
    for group in closed_windows.keys() | counted_flights:
        lost_count += abs(closed_windows.get(group, 0) - counted_flights[group])
    return lost_count
