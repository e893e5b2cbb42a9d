"""Times in another unit than Unix milliseconds, by their size: seconds, micro- and nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from noted_time.duration import shown_duration
from noted_time.errors import ImplausibleTime
from noted_time.note import LARGEST_TIME, LEAST_TIME
from noted_time.settings import DAY_MS
from noted_time.spelling import month

if TYPE_CHECKING:
    from noted_time.history import MarkHistory
    from noted_time.windows import Tiling

YEAR_MS = 365 * DAY_MS

LEAST_UNIX_MS = 10**11
"""March 1973: a stream whose lower is above has left the years in which seconds look like ms."""

SECONDS = range(10**8 + 1, LEAST_UNIX_MS)
"""As seconds 1973 to 5138, as milliseconds January 1970 to March 1973."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """A time of a note that is too far ahead.

    `field` is ``time``, ``max_time``, or ``max_times.`` and the domain.

    >>> bound = 1357034420000
    >>> Beyond("time", 1357034420000000).sentence(bound)
    'time 1357034420000000 is 42988 years too far ahead: microseconds?'
    >>> Beyond("max_times.ship", 1357034420000000000).sentence(bound)[-14:]
    ': nanoseconds?'
    >>> Beyond("max_time", 1357120820000).sentence(bound)
    'max_time 1357120820000 is 1d too far ahead'
    """

    field: str
    time: int

    def sentence(self, bound: int) -> str:
        """Return how far it is beyond the largest time allowed, and which unit it may be in."""
        if not LEAST_TIME <= self.time <= LARGEST_TIME:
            return f"{self.field} {self.time} is an end of int64, which is not a time"
        ahead = self.time - bound
        far = f"{ahead // YEAR_MS} years" if ahead >= 2 * YEAR_MS else shown_duration(ahead)
        units = (("microseconds", 10**3), ("nanoseconds", 10**6))
        fits = (unit for unit, n in units if LEAST_UNIX_MS < self.time // n <= bound)
        return f"{self.field} {self.time} is {far} too far ahead" + "".join(
            f": {unit}?" for unit in fits
        )


def look_like_seconds(time: int) -> bool:
    """Whether a time is more likely in seconds than in Unix ms.

    >>> [look_like_seconds(time) for time in (1795255200, 1795255200000, 10**8, 0)]
    [True, False, False, False]
    """
    return time in SECONDS


def seconds_doubt(time: int) -> str:
    """Return what a time that looks like seconds is as milliseconds, and the question.

    >>> seconds_doubt(1795255200)
    '1795255200, which is January 1970: are these seconds?'
    """
    return f"{time}, which is {month(time)}: are these seconds?"


def check_time(time: int, lower: int | None) -> None:
    """Raise `ImplausibleTime` for a time in seconds once the lower shows that others are in ms.

    Only of streams whose times are Unix ms.
    """
    if lower is not None and lower > LEAST_UNIX_MS and look_like_seconds(time):
        raise ImplausibleTime(time, lower)


def check_windows(after: int | None, tiling: Tiling, history: MarkHistory) -> None:
    """Raise `ImplausibleTime` for windows after a time in seconds, see `check_time`.

    If marks are kept of that time, it may be the end of the window before.
    """
    first = history.first
    if after is not None and first is not None and after + tiling.size_ms < first.lower:
        check_time(after, history.last_lower)
