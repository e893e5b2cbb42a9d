"""Parses times in rows and records, and detects an unexpected unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from itertools import islice
from math import floor, isfinite
from operator import index
from typing import Any, Literal

from noted_time.values import (
    EPOCH,
    INTEGER_PATTERN,
    LARGEST_TIME,
    LEAST_TIME,
    UNIX_MS,
    YEAR_MS,
    Bounds,
    NotObservable,
    Rejected,
    convert_local,
    unix_ms_of,
)

Unit = Literal["s", "ms", "us", "ns"]

UNIT_SIZES: dict[Unit, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""In ns."""

UNIT_NAMES = dict(zip(UNIT_SIZES, ("seconds", "ms", "microseconds", "nanoseconds"), strict=True))

FIRST_TIMES = 1000

FIRST_YEAR = 1990
"""The first year of digits such as 2026092110, which would be in 2033 as Unix seconds."""

DIGIT_FORMATS = ("%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S")

SHORT_FORMAT = "%y%m%d%H%M"

ZONE_REMEDY = "pass --zone, for example --zone UTC"

ANY_TIME = Bounds(LEAST_TIME, LARGEST_TIME + 1)

PLACEHOLDER_SPANS = (Bounds(-1000, 1), Bounds(253_402_128_000_000, 253_402_387_200_000))
"""0 and -1, and 9999-12-31 in any zone, in Unix ms."""

PLACEHOLDER_WORDS = "times that stand for none (0, -1 or the year 9999)"


class NoSuchTime(Rejected):
    """A time that cannot be right, among others that can."""


TWICE_WARNING = (
    "%s: local times in an hour that the zone has twice are read as of the first, so that time "
    "stands for at most an hour"
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
    there is a `zone`. With a `format`, numbers and texts are in that form of `strptime`. `bounds`
    are `None` until `judge` has seen the first times.
    """

    unit: Unit | None = None
    zone: tzinfo | None = None
    format: str | None = None
    bounds: Bounds | None = None

    def ms_of(self, value: object) -> int | None:
        """Return a time in Unix ms, rounded down: a number, an integer as text, ISO 8601, a date.

        >>> TimeForm("s").ms_of(1357034400.25), TimeForm("ns").ms_of("1357034400250000000")
        (1357034400250, 1357034400250)
        >>> TimeForm().ms_of("2013-01-01 10:00 UTC"), TimeForm().ms_of("2013-01-01T11:00+01:00")
        (1357034400000, 1357034400000)
        >>> TimeForm(format="%d/%b/%Y:%H:%M:%S %z").ms_of("01/Jan/2013:10:00:00 +0000")
        1357034400000

        Returns `None` for a placeholder, such as 0, where times outside `bounds` are judged. Raises
        `NoSuchTime` for another time outside, and for an hour that the zone skipped. Raises
        `Rejected` for everything else, with the value.
        """
        number = _parse_number(value) if self.format is None else None
        time = self._parse_moment(value) if number is None else self.scale_to_ms(number)
        if time in (self.bounds or ANY_TIME):
            return time
        if time not in ANY_TIME:
            raise Rejected(f"{value} is outside int64")
        kind = self.describe_outside(time)
        if kind is None:
            return None
        raise NoSuchTime(f"{str(value)[:40]!r} is among {kind}")

    def scale_to_ms(self, number: float | Decimal) -> int:
        """Round down; floats are exact to the microsecond."""
        size = UNIT_SIZES[self.unit or "ms"]
        if isinstance(number, int):
            return number * size // UNIT_SIZES["ms"]
        if isinstance(number, Decimal):
            return floor(number * size / UNIT_SIZES["ms"])
        return floor(round(number * (size / UNIT_SIZES["ms"]), 3))

    def judge(self, name: str, values: Iterable[object], now: int) -> TimeForm:
        """Return the form with a unit, and with the bounds of times that can be right.

        If most of the first times are from 1971 to 2199, all others are wrong. Raises
        `NotObservable` if the unit is in doubt; `now` is in Unix ms.
        """
        if self.bounds is not None:
            return self
        first = [*islice(values, FIRST_TIMES)]
        is_open = self.unit is None and self.format is None
        if is_open and (doubt := find_doubt(name, first, now)) is not None:
            raise NotObservable(doubt)
        form, times = replace(self, unit=self.unit or "ms"), list[int]()
        for value in first:
            with suppress(Rejected):
                times.append(form.ms_of(value) or 0)
        return replace(form, bounds=find_bounds(times)) if times else self

    def describe_outside(self, time: int) -> str | None:
        """Return what a time outside 1971 to 2199 looks like, `None` for a placeholder.

        >>> TimeForm("s").describe_outside(1_795_694_400_000_000), TimeForm().describe_outside(0)
        ('times that look like Unix ms', None)
        """
        if any(time in each for each in PLACEHOLDER_SPANS):
            return None
        size = UNIT_SIZES[self.unit or "ms"]
        for unit, words in UNIT_NAMES.items():
            if time * UNIT_SIZES[unit] // size in UNIX_MS:
                return f"times that look like Unix {words}"
        return "times in no year from 1971 to 2199"

    def find_zone(self, name: str, zone: str | None) -> tzinfo | None:
        """Return the zone of a column's local timestamps, `None` if they are instants.

        Raises `NotObservable` for local timestamps without a zone.
        """
        if zone is None and self.zone is None:
            raise NotObservable(f"column `{name}` has timestamps without a zone: {ZONE_REMEDY}")
        return self.zone if zone is None else None

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
            forms = "a number (--unit s, ms, us or ns), ISO 8601 with a zone, or pass --format"
            raise Rejected(f"{value!r:.60} is not a time: write {forms}")
        if moment.utcoffset() is not None:
            return unix_ms_of(moment)
        if self.zone is None:
            raise Rejected(f"{str(value)[:40]!r} has no zone: {ZONE_REMEDY}")
        passes = convert_local(moment, self.zone)
        if passes is None:
            raise NoSuchTime(f"{str(value)[:40]!r} is among {describe_skipped(self.zone)}")
        first, second = passes
        if first == second:
            return first
        found = FirstPass(first)
        found.second = second
        return found


IN_MS = TimeForm("ms", bounds=ANY_TIME)
"""Numbers as they are, also if they are not Unix ms."""


def describe_skipped(zone: tzinfo | str | None) -> str:
    return f"times in an hour that {zone} skipped"


def find_bounds(times: Sequence[int]) -> Bounds:
    """Return 1971 to 2199, unless most of the times are outside."""
    return UNIX_MS if 2 * sum(time in UNIX_MS for time in times) >= len(times) else ANY_TIME


def find_doubt(name: str, values: Iterable[object], now: int) -> str | None:
    """Return why the first times of a field cannot be Unix ms, or `None`.

    Most of the numbers are then outside 1971 to 2199, or digits of a date; text is not checked.
    `now` is in Unix ms.

    >>> now = 1795651200000
    >>> find_doubt("ts", [1795651200, "1795651201", 1795651202000], now)
    'the times of `ts` look like Unix seconds (2026-11-26 as seconds, 1970-01-21 as ms): pass --unit s'
    >>> find_doubt("ts", [2026112109, 2026112110], now)
    'the times of `ts`, for example 2026112110, look like digits of a date: pass --format %Y%m%d%H'
    """  # noqa: E501 - sentences as they are printed
    first = sorted(n for n in map(_parse_number, islice(values, FIRST_TIMES)) if n is not None)
    if (digits := _find_format(first, now)) is not None:
        example = f"the times of `{name}`, for example {first[len(first) // 2]}"
        return f"{example}, look like digits of a date: pass --format {digits}"
    scaled = {unit: [*map(TimeForm(unit).scale_to_ms, first)] for unit in UNIT_NAMES}
    fits = [unit for unit, times in scaled.items() if find_bounds(times) is UNIX_MS]
    if "ms" in fits:
        return None
    shown, of = first[len(first) // 2], f"the times of `{name}`"
    for unit in (each for each in fits if TimeForm(each).scale_to_ms(shown) <= now + YEAR_MS):
        day, as_ms = (_format_day(TimeForm(each).scale_to_ms(shown)) for each in (unit, None))
        in_words = UNIT_NAMES[unit]
        days = f"{day} as {in_words}, {as_ms} as ms"
        return f"{of} look like Unix {in_words} ({days}): pass --unit {unit}"
    remedy = "pass --unit ms to take them as they are"
    return f"{of}, for example {shown}, are Unix time in no unit: {remedy}"


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
        first_year = this_year - 2 if form == SHORT_FORMAT else FIRST_YEAR
        years = range(first_year, this_year + (3 if form == SHORT_FORMAT else 2))
        if numbers and 2 * sum(_is_date(each, form, years) for each in numbers) > len(numbers):
            return form
    return None


def _is_date(number: float | Decimal, form: str, years: range) -> bool:
    with suppress(Rejected):
        return _parse_format(str(number), form).year in years
    return False


def _parse_number(value: Any) -> float | Decimal | None:  # noqa: ANN401 - any value of a row
    if isinstance(value, str):
        return int(value) if INTEGER_PATTERN.fullmatch(value.strip()) else None
    if isinstance(value, float | Decimal):
        return value if isfinite(value) else None
    return index(value) if hasattr(value, "__index__") and not isinstance(value, bool) else None


def _format_day(ms: int) -> str:
    try:
        return str((EPOCH + timedelta(milliseconds=ms)).date())
    except OverflowError:
        return "no date"
