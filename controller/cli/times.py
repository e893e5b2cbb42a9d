"""Times as people read and write them: ISO 8601, which stands for Unix ms."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from noted_time import Rejected
from noted_time.times import unix_ms_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
UNIX_MS = range(31_536_000_000, 7_258_118_400_000)
"""Read as Unix ms: 1971 to 2199. Times beyond are of another clock, and shown as they are."""


def time_of(text: str) -> int:
    """Return a time given as an integer, or in ISO 8601 with a zone; raises `Rejected`.

    What lies between two ms is the later one, to be complete to which is more:

    >>> time_of("-5"), time_of("2013-01-01T10:00Z"), time_of("2013-01-01T11:00:00.0005+01:00")
    (-5, 1357034400000, 1357034400001)
    """
    if INTEGER.fullmatch(text):
        return int(text)
    forms = "say an integer, or ISO 8601 with its zone, as 2013-01-01T10:00Z"
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise Rejected(f"{text[:40]!r} is no time: {forms}") from error
    if found.tzinfo is None:
        raise Rejected(f"{text[:40]!r} has no zone: {forms}")
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
