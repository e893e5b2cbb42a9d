"""A time of a note that is too far ahead: by how much, and in which unit it may be."""

from __future__ import annotations

from dataclasses import dataclass

from noted_time.values.spelling import UNITS_MS, shown_duration

YEAR_MS = 365 * UNITS_MS["d"]
END_OF_INT64 = 2**63 - 1

LEAST_UNIX_MS = 10**11
"""March 1973: a stream whose lower is above has left the years in which seconds look like ms."""


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
        if abs(self.time) >= END_OF_INT64:
            return f"{self.field} {self.time} is an end of int64, which is not a time"
        ahead = self.time - bound
        far = f"{ahead // YEAR_MS} years" if ahead >= 2 * YEAR_MS else shown_duration(ahead)
        units = (("microseconds", 10**3), ("nanoseconds", 10**6))
        fits = (unit for unit, n in units if LEAST_UNIX_MS < self.time // n <= bound)
        return f"{self.field} {self.time} is {far} too far ahead" + "".join(
            f": {unit}?" for unit in fits
        )
