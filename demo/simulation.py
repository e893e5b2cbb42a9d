"""Predicts the outcome of each method without Spark, files or network.

A window, an hour of departures, closes when the watermark reaches its end. Spark has its defaults,
and a micro-batch for each minute with landings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from demo.data import HOUR_MS, Flight, Flights
from demo.measurement import Outcome
from demo.schedule import Airspace, find_closing_clocks
from noted_time_extensions.analyse.curves import Analysis, Curve, analyse

BEFORE_ALL_TIME = -(2**63)


class Windows:
    """The hourly windows under a watermark: counted, lost and emitted."""

    def __init__(self) -> None:
        self.lost = 0
        self.latencies: list[int] = []
        self._open: list[int] = []
        self._counted: set[int] = set()

    def land(self, flight: Flight, watermark: int) -> None:
        """Count the flight, or lose it if the watermark has reached its hour's end."""
        end = flight.window_end
        if end <= watermark:
            self.lost += 1
        elif end not in self._counted:
            self._counted.add(end)
            heappush(self._open, end)

    def close(self, watermark: int, clock: int) -> None:
        """Emit the windows that the watermark has reached, at the replay's `clock` in ms."""
        while self._open and self._open[0] <= watermark:
            self.latencies.append(clock - heappop(self._open))

    def outcome(self, flights: Flights, delay_ms: int | None) -> Outcome:
        return Outcome(delay_ms, len(flights.landed), self.lost, tuple(sorted(self.latencies)))


def own_watermark(flights: Flights, delay_ms: int) -> Outcome:
    """Return the outcome of Spark's own watermark: the newest departure, less a delay.

    Windows still open in the end are neither lost nor emitted.
    """
    spark = own_curve(flights)
    waits = spark.measure_waits(delay_ms).ms.tolist()
    return Outcome(delay_ms, len(flights.landed), spark.count_lost(delay_ms), tuple(waits))


def own_curve(flights: Flights) -> Curve:
    """Return the cost of Spark's own watermark at every delay.

    By default, Spark judges the rows of a micro-batch by the watermark of the batch before last,
    and `analyse` judges each row by all rows before it.
    """
    at_once = analyse_flights(flights).spark
    ends = np.array([flight.window_end for flight in flights.landed])
    starts = np.flatnonzero(np.diff(at_once.arrivals, prepend=BEFORE_ALL_TIME // 2))
    judging = np.full(len(starts), BEFORE_ALL_TIME // 2)
    judging[2:] = at_once.largest[starts[1:-1] - 1]
    rows_of = np.diff(starts, append=len(ends))
    needed_ms = np.repeat(judging, rows_of) - ends + 1
    opens = np.maximum(needed_ms[np.unique(ends, return_index=True)[1]], 0)
    return replace(at_once, needed=np.sort(needed_ms[needed_ms > 0]), opens=opens)


def analyse_flights(flights: Flights) -> Analysis:
    landed_flights = flights.landed
    return analyse(
        [flight.landing for flight in landed_flights],
        [flight.departure for flight in landed_flights],
        window_ms=HOUR_MS,
    )


def simulate_noted_time(flights: Flights) -> Outcome:
    """Return the outcome if all carriers note at each landing and each full hour.

    The lower is then the earliest departure in the air, or the clock without one.
    """
    airspace = Airspace(flights.landed)
    windows = Windows()
    lower = BEFORE_ALL_TIME
    for clock, landing in _moments(flights):
        for flight in landing:
            windows.land(flight, lower)
        lower = airspace.note(clock)
        windows.close(lower, clock)
    return windows.outcome(flights, None)


def simulate_perfect_watermark(flights: Flights) -> Outcome:
    """Return the outcome of the watermark that emits each hour once it is complete."""
    closing_clocks = find_closing_clocks(flights)
    latencies = sorted(clock - end for end, clock in closing_clocks.items())
    return Outcome(None, len(flights.landed), 0, tuple(latencies))


def least_delay_without_loss(flights: Flights) -> int:
    """Return the least delay in ms without a lost row, known only in hindsight."""
    return own_curve(flights).least_delay_ms()


def _moments(flights: Flights) -> Iterator[tuple[int, list[Flight]]]:
    """Yield each clock with an event, and the flights that land then."""
    moments: dict[int, list[Flight]] = {end: [] for end in flights.window_ends}
    for flight in flights.landed:
        moments.setdefault(flight.landing, []).append(flight)
    yield from sorted(moments.items())
