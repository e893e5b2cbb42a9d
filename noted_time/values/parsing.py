"""Parses times and durations, and checks text and numbers that callers pass."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from operator import index

from noted_time.values.errors import Rejected, Unreadable
from noted_time.values.times import EPOCH, UNITS_MS

Time = int | datetime
"""An integer of the application's clock (Unix ms by convention), or an aware `datetime`."""

_ONE_MS = timedelta(milliseconds=1)

_divide = timedelta.__floordiv__
"""The method of `timedelta`, because pendulum's, which Airflow uses, fails."""

LONGEST_MS = 999_999 * UNITS_MS["d"]
INTEGER_PATTERN = re.compile(r"-?[0-9]{1,19}", re.ASCII)
MONTHS_PATTERN = re.compile(r"[0-9]+(M|mo|mon|months?|y|years?)", re.ASCII)
DURATION_PATTERN = re.compile(r"(0|[1-9][0-9]{0,15})(ms|s|m|h|d)", re.ASCII)


def unix_ms_of(time: Time, *, up: bool = False) -> int:
    """Return the time in Unix ms.

    Fractions of a millisecond are rounded down, which is sound for a note's time. Rounding `up` is
    sound for an event's time and for a time to wait for.

    >>> from datetime import UTC
    >>> noon = datetime(2013, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
    >>> unix_ms_of(noon), unix_ms_of(noon, up=True), unix_ms_of(7)
    (1357041600000, 1357041600001, 7)

    Raises `Rejected` for a `datetime` without a zone, and for other types.
    """
    if not isinstance(time, datetime):
        return _integer(time)
    if time.tzinfo is None or time.utcoffset() is None:
        raise Rejected(
            f"{time!r} has no time zone: create it with tzinfo=datetime.UTC, "
            "or call .astimezone() if it is local time"
        )
    since_epoch = time - EPOCH
    if up:
        return -_divide(-since_epoch, _ONE_MS)  # the negative is rounded down
    return _divide(since_epoch, _ONE_MS)


def _integer(time: int) -> int:
    try:
        return index(time)
    except TypeError:
        kind = type(time).__name__
        raise Rejected(
            f"time {time!r} is a {kind}, neither an integer (Unix ms) nor an aware datetime"
        ) from None


def parse_time(text: str, *, up: bool = True) -> int:
    """Parse an integer, or a time in ISO 8601 with a zone, or raise `Unreadable`.

    Fractions of a millisecond are rounded `up`, for a time to wait for.

    >>> of_day = "2013-01-01T11:00:00.0005+01:00"
    >>> parse_time("-5"), parse_time("2013-01-01T10:00Z"), parse_time(of_day)
    (-5, 1357034400000, 1357034400001)
    """
    if INTEGER_PATTERN.fullmatch(text):
        return int(text)
    forms = "use an integer, or ISO 8601 with a zone, for example 2013-01-01T10:00Z"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Unreadable(f"{text[:40]!r} is not a time: {forms}") from error
    if moment.tzinfo is None:
        raise Unreadable(f"{text[:40]!r} has no zone: {forms}")
    return unix_ms_of(moment, up=up)


def parse_duration(text: str) -> int:
    """Parse a duration to ms: a whole number and its unit, or raise `Unreadable`.

    >>> parse_duration("500ms"), parse_duration("90m"), parse_duration("1h"), parse_duration("0s")
    (500, 5400000, 3600000, 0)
    """
    parts = DURATION_PATTERN.fullmatch(text)
    if parts:
        ms = int(parts[1]) * UNITS_MS[parts[2]]
    else:
        ms = LONGEST_MS + 1
    if ms > LONGEST_MS:
        remedy = "use for example 90d, 12h, 30m, 45s or 500ms"
        if MONTHS_PATTERN.fullmatch(text):
            remedy = "months and years differ in length, so use days, such as 30d; m is minutes"
        raise Unreadable(f"invalid duration {text[:40]!r}; {remedy}")
    return ms


def format_line(text: str, length: int) -> str:
    r"""Return the text in one line of at most `length` printable characters.

    >>> format_line("ops\n\x1b[2J\u202eKim", 128)
    'ops [2JKim'
    """
    return "".join(filter(str.isprintable, " ".join(text.split())))[:length]


def check_least(name: str, value: int | None, minimum: int) -> None:
    if value is not None and value < minimum:
        raise Rejected(f"{name} must be {minimum} or more, not {value}")
