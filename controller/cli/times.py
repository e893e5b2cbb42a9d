"""Times as people read and write them: ISO 8601, which stands for Unix ms."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from noted_time.values import Unreadable, shown_duration, unix_ms_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
SECOND_MS = 1000
MINUTE_MS = 60_000
INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
UNIX_MS = range(31_536_000_000, 7_258_118_400_000)
"""Read as Unix ms: 1971 to 2199. Times beyond are of another clock, and shown as they are."""


def time_of(text: str) -> int:
    """Return a time given as an integer, or in ISO 8601 with a zone; raises `Unreadable`.

    What lies between two ms is the later one, to be complete to which is more:

    >>> time_of("-5"), time_of("2013-01-01T10:00Z"), time_of("2013-01-01T11:00:00.0005+01:00")
    (-5, 1357034400000, 1357034400001)
    """
    if INTEGER.fullmatch(text):
        return int(text)
    forms = "use an integer, or ISO 8601 with a zone, for example 2013-01-01T10:00Z"
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise Unreadable(f"{text[:40]!r} is not a time: {forms}") from error
    if found.tzinfo is None:
        raise Unreadable(f"{text[:40]!r} has no zone: {forms}")
    return unix_ms_of(found, up=True)


def shown_time(time: int | None) -> str:
    """Return a time in ISO 8601 where it can be Unix ms, else as it is.

    >>> shown_time(1357034400000), shown_time(1357034400250), shown_time(42), shown_time(None)
    ('2013-01-01T10:00:00Z', '2013-01-01T10:00:00.250Z', '42', '-')
    """
    if time is None:
        return "-"
    if time not in UNIX_MS:
        return str(time)
    shown = (EPOCH + time * MS).replace(tzinfo=None)
    return f"{shown.isoformat(timespec='milliseconds' if time % 1000 else 'seconds')}Z"


def time_beside(time: int, other: int | None) -> str:
    """Return a time in ISO 8601, without the date where that is also the other's.

    >>> time_beside(1357036200000, 1357032300000), time_beside(1357036201000, 1357032300000)
    ('10:30Z', '10:30:01Z')
    >>> time_beside(1357036200000, None), time_beside(42, 41)
    ('2013-01-01T10:30:00Z', '42')
    """
    shown = shown_time(time)
    date, _, clock = shown.partition("T")
    if other is None or not clock or shown_time(other).partition("T")[0] != date:
        return shown
    return f"{clock.removesuffix(':00Z').removesuffix('Z')}Z"


def shown_gap(earlier: int, later: int) -> str:
    """Return how far one time is beyond another: a duration where both can be Unix ms.

    >>> ten = 1357034400000
    >>> [shown_gap(ten, ten + ms) for ms in (800, 42_000, 3_900_000, 12_000_000)]
    ['0 s', '42 s', '65 min', '3h 20m']
    >>> shown_gap(40, 42)
    '2'
    """
    ms = later - earlier
    if earlier not in UNIX_MS or later not in UNIX_MS:
        return str(ms)
    if ms < 2 * MINUTE_MS:
        return f"{ms // 1000} s"
    return f"{ms // MINUTE_MS} min" if ms < 180 * MINUTE_MS else shown_duration(ms)


def shown_seconds(ms: int) -> str:
    """Return a duration in full seconds, for what goes on while it is read.

    >>> shown_seconds(4061), shown_seconds(250), shown_seconds(5_400_000)
    ('4s', '0s', '1h 30m')
    """
    return shown_duration(ms // 1000 * 1000) if ms >= SECOND_MS else "0s"
