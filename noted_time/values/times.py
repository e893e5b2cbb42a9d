"""Formats times and durations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

MIN_INT64 = -(2**63)
MAX_INT64 = 2**63 - 1

Int64 = Annotated[int, Meta(ge=MIN_INT64, le=MAX_INT64)]
PositiveInt64 = Annotated[int, Meta(ge=1, le=MAX_INT64)]

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}

HOUR_MS = UNITS_MS["h"]
DAY_MS = UNITS_MS["d"]
WEEK_MS = 7 * UNITS_MS["d"]
YEAR_MS = 365 * UNITS_MS["d"]

FIRST_MONDAY_MS = 4 * DAY_MS
"""1970-01-05, as ms after 1970-01-01T00:00."""

LEAST_UNIX_MS = 10**11
"""March 1973 in Unix ms. A current time in seconds is below it."""

LEAST_LEAD_MS = 5000
"""A time is ahead of the clock from here on. Clocks set by NTP differ by less."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Bounds(Struct, frozen=True):
    """The numbers from `start` to `stop`, exclusive; `range` is slow for a float.

    >>> 5.5 in Bounds(1, 10**12), 10**12 in Bounds(1, 10**12)
    (True, False)
    """

    start: int
    stop: int

    def __contains__(self, number: float) -> bool:
        return self.start <= number < self.stop


UNIX_MS = Bounds(31_536_000_000, 7_258_118_400_000)
"""The years 1971 to 2199."""

UNIX_SECONDS = Bounds(10**8 + 1, LEAST_UNIX_MS)
"""1973 to 5138 in seconds, or January 1970 to March 1973 in ms."""

NOTED_SECONDS = Bounds(UNIX_SECONDS.start, UNIX_MS.stop // 1000)
"""The times up to 2199 in seconds, which are before April 1970 in ms."""


def format_time(time: int | None) -> str:
    """Return a time in ISO 8601 if it can be Unix ms, otherwise as a plain number.

    >>> format_time(1357034400000), format_time(1357034400250), format_time(42), format_time(None)
    ('2013-01-01T10:00:00Z', '2013-01-01T10:00:00.250Z', '42', '-')
    """
    if time is None:
        return "-"
    if time not in UNIX_MS:
        return str(time)
    moment = (EPOCH + timedelta(milliseconds=time)).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='milliseconds' if time % 1000 else 'seconds')}Z"


def format_gap(earlier_time: int, later_time: int) -> str:
    """Return the difference of two times, as a duration if both can be Unix ms.

    >>> format_gap(1357034400000, 1357038300000), format_gap(40, 42)
    ('1h 5m', '2')
    """
    ms = later_time - earlier_time
    if earlier_time in UNIX_MS and later_time in UNIX_MS:
        return format_seconds(ms)
    return str(ms)


def format_month(unix_ms: int) -> str:
    return f"{EPOCH + timedelta(milliseconds=unix_ms):%B %Y}"


def is_ahead_of_clock(time: int, now: int) -> bool:
    """Return whether a time is ahead of the clock. Times that are not near it are of another clock.

    >>> noon = 1_357_041_600_000
    >>> [is_ahead_of_clock(time, noon) for time in (noon + 5000, noon + 5001, noon * 2, 42)]
    [False, True, False, False]
    """
    return time in UNIX_MS and LEAST_LEAD_MS < time - now < YEAR_MS


def describe_lead(time: int, now: int) -> str:
    """Return how far a noted time is ahead of the clock.

    >>> describe_lead(1_357_041_900_000, 1_357_041_600_000)
    'noted 2013-01-01T12:05:00Z, 5m ahead'
    """
    return f"noted {format_time(time)}, {format_seconds(time - now)} ahead"


def look_like_seconds(time: int) -> bool:
    return time in UNIX_SECONDS


def describe_doubt(time: int) -> str:
    """Return a question about a time that looks like seconds.

    >>> describe_doubt(1795255200)
    '1795255200, which is January 1970: are these seconds?'
    """
    return f"{time}, which is {format_month(time)}: are these seconds?"


def suspect_seconds(time: int) -> str:
    """Return the question to a caller whose time looks like seconds."""
    return f"is {time} in seconds? The times of the stream are in milliseconds"


def refuse_seconds(time: int) -> str:
    """Return why a note is refused whose time looks like seconds, and the remedy.

    >>> refuse_seconds(1795255200)[:92]
    'is 1795255200 in seconds? The times of the stream are in milliseconds, so note 1795255200000'
    """
    remedy = "set max_time_ahead_ms of the stream to null if its times are not Unix milliseconds"
    return f"{suspect_seconds(time)}, so note {time * 1000}, or {remedy}"


def format_duration(ms: int) -> str:
    """Return a duration in its largest unit and the next smaller one, rounded towards 0.

    >>> [format_duration(ms) for ms in (0, 500, 5_400_000, 240_017, 90_000_000, -3_598_000)]
    ['0ms', '500ms', '1h 30m', '4m', '1d 1h', '-59m 58s']
    """
    if ms < 0:
        return f"-{format_duration(-ms)}"
    parts = []
    for unit, size in UNITS_MS.items():
        number, ms = divmod(ms, size)
        parts.append(f"{number}{unit}" if number else "")
    first_index = next((index for index, part in enumerate(parts) if part), None)
    if first_index is None:
        return "0ms"
    return " ".join(filter(None, parts[first_index : first_index + 2]))


def format_seconds(ms: int) -> str:
    """Return a duration in full seconds.

    >>> format_seconds(4061), format_seconds(250), format_seconds(5_400_000), format_seconds(-1)
    ('4s', '0s', '1h 30m', '0s')
    """
    if ms < UNITS_MS["s"]:
        return "0s"
    return format_duration(ms // 1000 * 1000)


def pluralize(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class Beyond(Struct, frozen=True):
    """A time of a note that is too far ahead, or in another unit.

    >>> bound = 1357034420000
    >>> Beyond("time", 1357034420000000).sentence(bound)
    'time 1357034420000000 is 42988 years too far ahead: microseconds?'
    """

    field: str
    time: Int64

    def sentence(self, bound: int) -> str:
        if abs(self.time) >= MAX_INT64:
            return f"{self.field} {self.time} is an end of int64, which is not a time"
        ahead = self.time - bound
        if ahead >= 2 * YEAR_MS:
            distance = f"{ahead // YEAR_MS} years"
        else:
            distance = format_duration(ahead)
        units = (("microseconds", 10**3), ("nanoseconds", 10**6))
        fitting_units = (
            unit for unit, factor in units if LEAST_UNIX_MS < self.time // factor <= bound
        )
        return f"{self.field} {format_time(self.time)} is {distance} too far ahead" + "".join(
            f": {unit}?" for unit in fitting_units
        )
