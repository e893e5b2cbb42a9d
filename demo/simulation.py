"""The whole replay without Spark, files or network: an independent prediction for each method.

Rows are judged one by one, as if each were a micro-batch of its own; no engine can judge finer.
Windows are the hours of departure, and a window closes when the watermark reaches its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from demo.data import HOUR_MS, Flight, Flights
from demo.measurement import Outcome
from demo.schedule import Airspace
from noted_time.analysis import Analysis, analyse

BEFORE_ALL_TIME = -(2**63)


class Windows:
    """The hourly windows while the watermark passes: what was counted, lost and emitted."""

    def __init__(self) -> None:
        self.lost = 0
        self.latencies: list[int] = []
        self._open: list[int] = []
        self._counted: set[int] = set()

    def land(self, flight: Flight, watermark: int) -> None:
        """Count the flight, or lose it if the watermark has reached the end of its hour."""
        end = flight.window_end
        if end <= watermark:
            self.lost += 1
        elif end not in self._counted:
            self._counted.add(end)
            heappush(self._open, end)

    def close(self, watermark: int, clock: int) -> None:
        """Emit the windows that the watermark has reached; `clock` is the replay's, in ms."""
        while self._open and self._open[0] <= watermark:
            self.latencies.append(clock - heappop(self._open))

    def outcome(self, flights: Flights, delay_ms: int | None) -> Outcome:
        """Return the outcome."""
        return Outcome(delay_ms, len(flights.landed), self.lost, tuple(sorted(self.latencies)))


def own_watermark(flights: Flights, delay_ms: int) -> Outcome:
    """Return the outcome of Spark's own watermark: the newest departure so far, less a delay.

    Windows that are still open when the data ends count neither as lost nor as emitted.
    """
    spark = analysed(flights).spark
    waits = spark.measure_waits(delay_ms).ms.tolist()
    return Outcome(delay_ms, len(flights.landed), spark.count_lost(delay_ms), tuple(waits))


def analysed(flights: Flights) -> Analysis:
    """Return what delays cost on the flights as they land."""
    landed = flights.landed
    return analyse(
        [flight.landing for flight in landed],
        [flight.departure for flight in landed],
        window_ms=HOUR_MS,
    )


def noted_time(flights: Flights) -> Outcome:
    """Return the outcome of noted time if all carriers note at each landing and each full hour.

    The lower is then the earliest departure in the air of any carrier, or the clock if no flight is
    in the air.
    """
    airspace, windows, lower = Airspace(flights.landed), Windows(), BEFORE_ALL_TIME
    for clock, landing in _moments(flights):
        for flight in landing:
            windows.land(flight, lower)
        lower = airspace.note(clock)
        windows.close(lower, clock)
    return windows.outcome(flights, None)


def least_delay_without_loss(flights: Flights) -> int:
    """Return the least delay in ms at which Spark's own watermark would have lost no row.

    Only hindsight knows it.
    """
    return analysed(flights).spark.least_delay_ms()


def _moments(flights: Flights) -> Iterator[tuple[int, list[Flight]]]:
    """Yield each clock at which something happens, with the flights that land then."""
    moments: dict[int, list[Flight]] = {end: [] for end in flights.window_ends}
    for flight in flights.landed:
        moments.setdefault(flight.landing, []).append(flight)
    yield from sorted(moments.items())
