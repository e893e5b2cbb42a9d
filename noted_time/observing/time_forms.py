"""Parses times in rows and records, and detects an unexpected unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from itertools import islice
from math import floor, isfinite
from operator import index
from typing import Any, Literal

from noted_time.observing.epochs import list_near
from noted_time.values import (
    EPOCH,
    LARGEST_TIME,
    LEAST_TIME,
    UNIX_MS,
    UTC_ZONE,
    YEAR_MS,
    Bounds,
    NotObservable,
    Rejected,
    convert_local,
    unix_ms_of,
)

Unit = Literal["s", "ms", "us", "ns", "d"]

UNIT_SIZES: dict[Unit, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "d": 86_400 * 10**9}
"""In ns."""

UNIT_NAMES: dict[Unit, str] = {
    "s": "seconds",
    "ms": "ms",
    "us": "microseconds",
    "ns": "nanoseconds",
    "d": "days",
}

NUMBER_PATTERN = re.compile(r"[-+]?[0-9]{1,19}(\.[0-9]{0,18})?([eE][-+]?[0-9]{1,2})?", re.ASCII)

FIRST_TIMES = 1000

FIRST_YEAR = 1990
"""The first year of digits such as 2026092110, which would be in 2033 as Unix seconds."""

LEAST_OLD_MS = 946_684_800_000
"""The year 2000: .NET ticks and FILETIME would be Unix nanoseconds of 1990 and 1974."""

DIGIT_FORMATS = ("%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y")

SHORT_FORMAT = "%y%m%d%H%M"

ZONE_REMEDY = "pass --zone, for example --zone UTC"

ANY_TIME = Bounds(LEAST_TIME, LARGEST_TIME + 1)

PLACEHOLDER_SPANS = (Bounds(-1000, 1), Bounds(253_402_128_000_000, 253_402_387_200_000))
"""0 and -1, and 9999-12-31 in any zone, in Unix ms."""

PLACEHOLDER_WORDS = "times that stand for none (0, -1 or the year 9999)"


class NoSuchTime(Rejected):
    """A time that cannot be right, among others that can."""


TWICE_WARNING = (
    "%s: ambiguous local times, of the hour when clocks are set back, are read as the first "
    "occurrence. The watermark may pause for up to an hour"
)


NULL_WARNING = (
    "%s: %s. Until a later time is read, the watermark waits here, unless the observer has --null "
    "pass"
)


class FirstPass(int):
    """A local time in an hour that its zone had twice: the time in the first one.

    `second` is the time in the other one.
    """

    second: int


@dataclass(frozen=True, slots=True)
class TimeForm:
    """The unit of numeric times, and the zone of times without one.

    Without a unit, numbers are Unix ms. Times without a zone, such as dates, are rejected unless
    there is a `zone`. With the unit `d`, numbers and dates are days since 1970 in the zone, or in
    UTC without one. With a `format`, numbers and texts are in that form of `strptime`. `bounds` are
    `None` until `judge` has seen the first times.
    """

    unit: Unit | None = None
    zone: tzinfo | None = None
    format: str | None = None
    bounds: Bounds | None = None

    def ms_of(self, value: object) -> int | None:
        """Return a time in Unix ms, rounded down: a number, also as text, ISO 8601, a date.

        >>> TimeForm("s").ms_of(1357034400.25), TimeForm("ns").ms_of("1357034400250000000")
        (1357034400250, 1357034400250)
        >>> TimeForm("s").ms_of("1357034400.250"), TimeForm("d").ms_of(15706)
        (1357034400250, 1356998400000)
        >>> TimeForm().ms_of("2013-01-01 10:00 UTC"), TimeForm().ms_of("2013-01-01T11:00+01:00")
        (1357034400000, 1357034400000)
        >>> TimeForm(format="%d/%b/%Y:%H:%M:%S %z").ms_of("01/Jan/2013:10:00:00 +0000")
        1357034400000

        Returns `None` for a placeholder, such as 0, where times outside `bounds` are judged. Raises
        `NoSuchTime` for another time outside, and for an hour that the zone skipped. Raises
        `Rejected` for everything else, with the value.
        """
        number = self._find_number(value)
        if number is None:
            time = self._parse_moment(value)
        elif self.unit == "d" and self.zone is not None:
            time = self._place_days(number)
        else:
            time = self.scale_to_ms(number)
        if time in (self.bounds or ANY_TIME):
            return time
        if time not in ANY_TIME:
            raise Rejected(f"{value} is outside int64")
        description = self.describe_outside(time)
        if description is None:
            return None
        raise NoSuchTime(f"{str(value)[:40]!r} is among {description}")

    def scale_to_ms(self, number: float | Decimal) -> int:
        """Round down; floats are exact to the microsecond."""
        size = UNIT_SIZES[self.unit or "ms"]
        if isinstance(number, int):
            return number * size // UNIT_SIZES["ms"]
        if isinstance(number, Decimal):
            return floor(number * size / UNIT_SIZES["ms"])
        return floor(round(number * (size / UNIT_SIZES["ms"]), 3))

    def judge(self, name: str, values: Iterable[object], arrival: int) -> TimeForm:
        """Return the form with a unit, and with the bounds of times that can be right.

        If most of the first times are from 1971 to 2199, all others are wrong. Raises
        `NotObservable` if the unit is in doubt. `arrival` is when the times arrived, in Unix ms, or
        now.
        """
        if self.bounds is not None:
            return self
        first = [*islice(values, FIRST_TIMES)]
        is_open = self.unit is None and self.format is None
        if is_open and (doubt := find_doubt(name, first, arrival)) is not None:
            raise NotObservable(doubt)
        form = replace(self, unit=self.unit or "ms")
        times: list[int] = []
        for value in first:
            with suppress(Rejected):
                times.append(form.ms_of(value) or 0)
        if not times:
            return self
        return replace(form, bounds=find_bounds(times))

    def describe_outside(self, time: int) -> str | None:
        """Return what a time outside 1971 to 2199 looks like, `None` for a placeholder.

        >>> TimeForm("s").describe_outside(1_795_694_400_000_000), TimeForm().describe_outside(0)
        ('times that look like Unix ms', None)
        """
        if any(time in span for span in PLACEHOLDER_SPANS):
            return None
        unit_size = UNIT_SIZES[self.unit or "ms"]
        for unit, unit_name in UNIT_NAMES.items():
            if unit != "d" and time * UNIT_SIZES[unit] // unit_size in UNIX_MS:
                return f"times that look like Unix {unit_name}"
        return "times in no year from 1971 to 2199"

    def find_zone(self, name: str, zone: str | None) -> tzinfo | None:
        """Return the zone of a column's local timestamps, `None` if they are instants.

        Raises `NotObservable` for local timestamps without a zone.
        """
        if zone is None and self.zone is None:
            raise NotObservable(f"column `{name}` has timestamps without a zone: {ZONE_REMEDY}")
        return self.zone if zone is None else None

    def _find_number(self, value: object) -> float | Decimal | None:
        if self.format is not None:
            return None
        if self.unit == "d" and isinstance(value, date) and not isinstance(value, datetime):
            return (value - EPOCH.date()).days
        number: float | Decimal | None = _parse_number(value)
        return number

    def _place_days(self, number: float | Decimal) -> int:
        try:
            moment = EPOCH.replace(tzinfo=None) + timedelta(milliseconds=self.scale_to_ms(number))
        except OverflowError as error:
            raise Rejected(f"{number} days since 1970 are in no year from 1 to 9999") from error
        return self._place_moment(moment, number)

    def _parse_moment(self, value: object) -> int:
        moment = value
        if self.format is not None and isinstance(value, str | int):
            moment = _parse_format(str(value).strip(), self.format)
        elif isinstance(value, date) and not isinstance(value, datetime):
            moment = datetime.combine(value, time())
        elif isinstance(value, str):
            with suppress(ValueError):
                moment = datetime.fromisoformat(value.strip().replace(" UTC", "+00:00"))
        if not isinstance(moment, datetime):
            forms = "a number (--unit s, ms, us, ns or d), ISO 8601 with a zone, or pass --format"
            raise Rejected(f"{value!r:.60} is not a time: write {forms}")
        if moment.utcoffset() is not None:
            return unix_ms_of(moment)
        if self.zone is None:
            raise Rejected(f"{str(value)[:40]!r} has no zone: {ZONE_REMEDY}")
        return self._place_moment(moment, value)

    def _place_moment(self, moment: datetime, value: object) -> int:
        """Return a local time in the zone, by default UTC."""
        unix_times = convert_local(moment, UTC_ZONE if self.zone is None else self.zone)
        if unix_times is None:
            raise NoSuchTime(f"{str(value)[:40]!r} is among {describe_skipped(self.zone)}")
        first, second = unix_times
        if first == second:
            return first
        first_pass = FirstPass(first)
        first_pass.second = second
        return first_pass


IN_MS = TimeForm("ms", bounds=ANY_TIME)
"""Numbers as they are, also if they are not Unix ms."""


def describe_skipped(zone: tzinfo | str | None) -> str:
    return f"times in an hour that {zone} skipped"


def find_bounds(times: Sequence[int]) -> Bounds:
    """Return 1971 to 2199, unless most of the times are outside."""
    unix_times = [time for time in times if time in UNIX_MS]
    if 2 * len(unix_times) >= len(times):
        return UNIX_MS
    return ANY_TIME


def find_arrival(timestamps: Iterable[int], now: int) -> int:
    """Return the median of the timestamps from 1971 to 2199, or now without any."""
    unix_times = sorted(time for time in timestamps if time in UNIX_MS)
    return unix_times[len(unix_times) // 2] if unix_times else now


def find_doubt(name: str, values: Iterable[object], arrival: int) -> str | None:
    """Return why the first times of a field cannot be Unix ms, or `None`.

    Most of the numbers are then outside 1971 to 2199, or digits of a date; text is not checked. The
    result names the units and epochs that are within a year of the `arrival`, in Unix ms.

    >>> now = 1795651200000
    >>> find_doubt("ts", [1795651200, "1795651201", 1795651202000], now)
    'the times of `ts` look like Unix seconds (2026-11-26 as seconds, 1970-01-21 as ms): pass --unit s'
    >>> find_doubt("ts", [2026112109, 2026112110], now)
    'the times of `ts`, for example 2026112110, look like digits of a date: pass --format %Y%m%d%H'
    >>> find_doubt("ts", [1479686418], now)
    'the times of `ts`, for example 1479686418, look like GPS seconds since 1980 (2026-11-26; Unix ms are round(value * 1000) + 315_964_782_000) or Unix seconds (2016-11-21): let --field module:function return Unix ms, or write them to a column'
    >>> find_doubt("ts", [1357034400], now)
    'the times of `ts`, for example 1357034400, are near 2026-11-26 in no unit; they are 2013-01-01 as seconds: if that is right, pass it as --unit'
    """  # noqa: E501 - sentences as they are printed
    values_as_numbers = [_parse_number(value) for value in islice(values, FIRST_TIMES)]
    numbers = sorted(number for number in values_as_numbers if number is not None)
    form = _find_format(numbers, arrival)
    if form is None:
        times = [IN_MS.scale_to_ms(number) for number in numbers]
        if find_bounds(times) is UNIX_MS:
            return None
    median = numbers[len(numbers) // 2]
    example = f"the times of `{name}`, for example {median}"
    if form is not None:
        return f"{example}, look like digits of a date: pass --format {form}"
    return (
        _describe_unit(name, median, arrival)
        or _describe_epochs(example, median, arrival)
        or _describe_old(example, median, arrival)
        or f"{example}, are Unix time in no unit: pass --unit ms to take them as they are"
    )


def _describe_unit(name: str, number: float | Decimal, arrival: int) -> str | None:
    """Name the Unix unit that puts a number near its arrival."""
    for unit, unit_name in UNIT_NAMES.items():
        time = TimeForm(unit).scale_to_ms(number)
        if abs(time - arrival) <= YEAR_MS:
            both_days = (
                f"{_format_day(time)} as {unit_name}, "
                f"{_format_day(IN_MS.scale_to_ms(number))} as ms"
            )
            return (
                f"the times of `{name}` look like Unix {unit_name} ({both_days}): "
                f"pass --unit {unit}"
            )
    return None


def _describe_epochs(example: str, number: float | Decimal, arrival: int) -> str | None:
    """Name the epochs that put a number near its arrival, with their formulas."""
    names = list[str]()
    for epoch in list_near(number, arrival, YEAR_MS):
        day = _format_day(epoch.scale_to_ms(number))
        names.append(f"{epoch.name} ({day}; Unix ms are {epoch.formula})")
    if not names:
        return None
    unit = _find_old_unit(number, arrival)
    if unit is not None and TimeForm(unit).scale_to_ms(number) >= LEAST_OLD_MS:
        names.append(f"Unix {UNIT_NAMES[unit]} ({_format_day(TimeForm(unit).scale_to_ms(number))})")
    remedy = "let --field module:function return Unix ms, or write them to a column"
    return f"{example}, look like {' or '.join(names)}: {remedy}"


def _describe_old(example: str, number: float | Decimal, arrival: int) -> str | None:
    """Name the Unix unit that puts a number long before its arrival, as in an archive."""
    unit = _find_old_unit(number, arrival)
    if unit is None:
        return None
    day = _format_day(TimeForm(unit).scale_to_ms(number))
    return (
        f"{example}, are near {_format_day(arrival)} in no unit; they are {day} as "
        f"{UNIT_NAMES[unit]}: if that is right, pass it as --unit"
    )


def _find_old_unit(number: float | Decimal, arrival: int) -> Unit | None:
    for unit in UNIT_NAMES:
        time = TimeForm(unit).scale_to_ms(number)
        if time in UNIX_MS and time < arrival:
            return unit
    return None


def _parse_format(text: str, form: str) -> datetime:
    with suppress(ValueError):
        moment = datetime.strptime(text, form)  # noqa: DTZ007 - its zone is checked
        # `strptime` takes single digits, too, so that missing ones would move the others
        if not text.isdecimal() or moment.strftime(form) == text:
            return moment
    raise Rejected(f"{text:.60} is not in the format {form!r}")


def _find_format(numbers: Sequence[float | Decimal], now: int) -> str | None:
    """Return the format of digits that makes most numbers dates up to next year."""
    this_year = (EPOCH + timedelta(milliseconds=now)).year
    for form in (*DIGIT_FORMATS, SHORT_FORMAT):
        years = range(FIRST_YEAR, this_year + 2)
        if form == SHORT_FORMAT:
            years = range(this_year - 2, this_year + 3)
        dates = [number for number in numbers if _is_date(number, form, years)]
        if 2 * len(dates) > len(numbers):
            return form
    return None


def _is_date(number: float | Decimal, form: str, years: range) -> bool:
    with suppress(Rejected):
        return _parse_format(str(number), form).year in years
    return False


def _parse_number(value: Any) -> float | Decimal | None:  # noqa: ANN401 - any value of a row
    if isinstance(value, str):
        text = value.strip()
        match = NUMBER_PATTERN.fullmatch(text)
        if match is None:
            return None
        if match[1] or match[2]:
            return Decimal(text)
        return int(text)
    if isinstance(value, float | Decimal):
        return value if isfinite(value) else None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    return index(value)


def _format_day(ms: int) -> str:
    try:
        return str((EPOCH + timedelta(milliseconds=ms)).date())
    except OverflowError:
        return "no date"
