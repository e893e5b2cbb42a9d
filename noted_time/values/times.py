"""How a time that a caller gives, an integer or an aware `datetime`, becomes an int64 of ms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import index

from noted_time.values.errors import Rejected

Time = int | datetime
"""An integer of the application's clock (Unix ms by convention), or an aware `datetime`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def unix_ms_of(time: Time, *, up: bool = False) -> int:
    """Return the time in Unix ms; an integer is taken as it is, numpy's as well.

    What is finer than a millisecond is rounded down, which is sound for a time below which all is
    written, or `up`, which is sound for the time of an event or one to wait for.

    >>> noon = datetime(2013, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
    >>> unix_ms_of(noon), unix_ms_of(noon, up=True), unix_ms_of(7)
    (1357041600000, 1357041600001, 7)

    Raises `Rejected` where a `datetime` has no time zone, which could be any hour of the day, and
    for everything else that is no integer.
    """
    if not isinstance(time, datetime):
        return _integer(time)
    if time.tzinfo is None or time.utcoffset() is None:
        raise Rejected(
            f"{time!r} has no time zone: create it with tzinfo=datetime.UTC, "
            "or call .astimezone() if it is local time"
        )
    since = time - _EPOCH
    return -(-since // _MS) if up else since // _MS


def _integer(time: int) -> int:
    try:
        return index(time)
    except TypeError:
        kind = type(time).__name__
        raise Rejected(
            f"time {time!r} is a {kind}, neither an integer (Unix ms) nor an aware datetime"
        ) from None
