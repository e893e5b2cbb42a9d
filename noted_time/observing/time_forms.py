"""Parses times in rows and records, and detects an unexpected unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
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
    NotObservable,
    Rejected,
    unix_ms_of,
)

Unit = Literal["s", "ms", "us", "ns"]

UNIT_SIZES: dict[Unit, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""In ns."""

UNIT_NAMES = dict(zip(UNIT_SIZES, ("seconds", "ms", "microseconds", "nanoseconds"), strict=True))

FIRST_TIMES = 1000


@dataclass(frozen=True, slots=True)
class TimeForm:
    """The unit of numeric times, and the time zone of text without one.

    Without a unit, numbers are Unix ms. Text without a zone is rejected unless there is a `zone`,
    and so is a typed column without a zone if there is one.
    """

    unit: Unit | None = None
    zone: tzinfo | None = None

    def ms_of(self, value: object) -> int:
        """Return a time in Unix ms, rounded down: a number, an integer as text, ISO 8601.

        >>> TimeForm("s").ms_of(1357034400.25), TimeForm("ns").ms_of("1357034400250000000")
        (1357034400250, 1357034400250)
        >>> TimeForm().ms_of("2013-01-01 10:00 UTC"), TimeForm().ms_of("2013-01-01T11:00+01:00")
        (1357034400000, 1357034400000)

        Raises `Rejected` for everything else, with the value.
        """
        number = _parse_number(value)
        time = unix_ms_of(self._parse_moment(value)) if number is None else self.scale_to_ms(number)
        if not LEAST_TIME <= time <= LARGEST_TIME:
            raise Rejected(f"{value} is outside int64")
        return time

    def scale_to_ms(self, number: float) -> int:
        """Round down; floats are exact to the microsecond."""
        size = UNIT_SIZES[self.unit or "ms"]
        if isinstance(number, int):
            return number * size // UNIT_SIZES["ms"]
        return floor(round(number * (size / UNIT_SIZES["ms"]), 3))

    def infer_unit(self, name: str, values: Iterable[object]) -> TimeForm:
        """Return the form with a unit, or raise `NotObservable` for a doubt."""
        doubt = find_doubt(name, values) if self.unit is None else None
        if doubt is not None:
            raise NotObservable(doubt)
        return replace(self, unit=self.unit or "ms")

    def check_column(self, name: str, zone: str | None) -> None:
        """Raise `NotObservable` if a column of timestamps has no zone, but one is given."""
        if zone is None and self.zone is not None:
            raise NotObservable(
                f"column `{name}` has timestamps without a zone, which are read as UTC: leave "
                "--zone out if they are UTC, or write them with a zone"
            )

    def _parse_moment(self, value: object) -> datetime:
        moment = value
        if isinstance(value, str):
            with suppress(ValueError):
                moment = datetime.fromisoformat(value.strip().replace(" UTC", "+00:00"))
        if not isinstance(moment, datetime):
            forms = "a number (--unit s, ms, us or ns), or ISO 8601 with a zone"
            raise Rejected(f"{value!r:.60} is not a time: write {forms}")
        if moment.utcoffset() is not None:
            return moment
        if self.zone is None:
            remedy = "pass --zone, for example --zone UTC"
            raise Rejected(f"{str(value)[:40]!r} has no zone: {remedy}")
        return moment.replace(tzinfo=self.zone)


IN_MS = TimeForm("ms")


def find_doubt(name: str, values: Iterable[object]) -> str | None:
    """Return why the first times of a field cannot be Unix ms, or `None`.

    Most of the numbers are then outside 1971 to 2199; text is not checked.

    >>> find_doubt("ts", [1795651200, "1795651201", 1795651202000])
    'the times of `ts` look like Unix seconds (2026-11-26 as seconds, 1970-01-21 as ms): pass --unit s'
    """  # noqa: E501 - sentences as they are printed
    first = sorted(n for n in map(_parse_number, islice(values, FIRST_TIMES)) if n is not None)
    fits = [unit for unit in UNIT_NAMES if 2 * _count_unix(unit, first) >= len(first)]
    if "ms" in fits:
        return None
    shown, of = first[len(first) // 2], f"the times of `{name}`"
    for unit in fits:
        day, as_ms = (_format_day(TimeForm(each).scale_to_ms(shown)) for each in (unit, None))
        in_words = UNIT_NAMES[unit]
        days = f"{day} as {in_words}, {as_ms} as ms"
        return f"{of} look like Unix {in_words} ({days}): pass --unit {unit}"
    remedy = "pass --unit ms to take them as they are"
    return f"{of}, for example {shown}, are Unix time in no unit: {remedy}"


def _count_unix(unit: Unit, numbers: Sequence[float]) -> int:
    return sum(TimeForm(unit).scale_to_ms(number) in UNIX_MS for number in numbers)


def _parse_number(value: Any) -> float | None:  # noqa: ANN401 - any value of a row
    if isinstance(value, str):
        return int(value) if INTEGER_PATTERN.fullmatch(value.strip()) else None
    if isinstance(value, float):
        return value if isfinite(value) else None
    return index(value) if hasattr(value, "__index__") and not isinstance(value, bool) else None


def _format_day(ms: int) -> str:
    try:
        return str((EPOCH + timedelta(milliseconds=ms)).date())
    except OverflowError:
        return "no date"
