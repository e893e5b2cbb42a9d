"""When the replay stops, the flights landed by then, and the notes of carriers.

An hourly count changes only at certain moments. So stops at these alone give exact figures with few
steps.

* Noted time closes an hour when the last flight that departed in it or before has landed, or at the
  hour's end if nothing is in the air. There the carriers write and note.
* Spark's own watermark, whose delay is a number of full hours, closes an hour when the newest
  departure passes a full hour. Spark judges late rows by the watermark of the batch before last. So
  its micro-batches end with that minute, and with the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter

from demo.data import HOUR_MS, Flight, Flights


@dataclass(frozen=True, slots=True)
class Step:
    """The replay at `clock` (Unix ms): the flights landed since the last step, and the notes.

    `landed` has the flights of each carrier, in order. `notes` has each carrier's earliest
    departure in the air, or the clock without one: all its earlier flights have landed.
    """

    clock: int
    landed: Mapping[str, Sequence[Flight]]
    notes: Mapping[str, int]


def find_closing_clocks(flights: Flights) -> dict[int, int]:
    """Return when each hour of departures becomes complete, by its end, both in Unix ms.

    At the last one all flights have landed.
    """
    by_departure = sorted(flights.landed, key=attrgetter("departure"), reverse=True)
    clocks = {}
    last_landing = 0
    for end in flights.window_ends:
        while by_departure and by_departure[-1].departure < end:
            last_landing = max(last_landing, by_departure.pop().landing)
        clocks[end] = max(end, last_landing)
    return clocks


def steps(flights: Flights, clocks: Iterable[int] | None = None) -> Iterator[Step]:
    """Yield the steps of the replay, by default at the closing clocks.

    `clocks` are rising Unix ms; all flights have landed if the last is late enough.
    """
    if clocks is None:
        clocks = sorted(set(find_closing_clocks(flights).values()))
    airspaces: dict[str, Airspace] = {}
    for carrier in flights.carriers:
        carrier_flights = [flight for flight in flights.landed if flight.carrier == carrier]
        airspaces[carrier] = Airspace(carrier_flights)
    passed_count = 0
    for clock in clocks:
        landed_flights: dict[str, list[Flight]] = {}
        while passed_count < len(flights.landed) and flights.landed[passed_count].landing <= clock:
            flight = flights.landed[passed_count]
            landed_flights.setdefault(flight.carrier, []).append(flight)
            passed_count += 1
        notes = {carrier: airspace.note(clock) for carrier, airspace in airspaces.items()}
        yield Step(clock, landed_flights, notes)


class Airspace:
    """The flights in the air, as the clock advances."""

    def __init__(self, flights: Iterable[Flight]) -> None:
        self._scheduled = sorted(flights, key=attrgetter("departure"), reverse=True)
        self._in_the_air: list[tuple[int, int]] = []

    def note(self, clock: int) -> int:
        """Return the earliest departure in the air at `clock`, or the clock; it never goes back."""
        while self._scheduled and self._scheduled[-1].departure <= clock:
            flight = self._scheduled.pop()
            heappush(self._in_the_air, (flight.departure, flight.landing))
        while self._in_the_air and self._in_the_air[0][1] <= clock:
            heappop(self._in_the_air)
        if not self._in_the_air:
            return clock
        earliest_departure, _ = self._in_the_air[0]
        return earliest_departure


def merge_minutes(flights: Flights) -> Iterator[Sequence[Flight]]:
    """Yield few micro-batches that lose and emit the same rows as a batch for each minute would.

    Under delays of full hours, this changes only where the newest departure passes an hour.
    """
    batch = list[Flight]()
    newest = 0
    hour = None
    has_passed = False
    for _, landed_flights in groupby(flights.landed, key=attrgetter("landing")):
        batch += landed_flights
        newest = max(newest, *(flight.departure for flight in batch))
        had_passed = has_passed
        has_passed = newest // HOUR_MS != hour
        hour = newest // HOUR_MS
        if has_passed or had_passed:
            yield batch
            batch = []
    if batch:
        yield batch
