"""How often the same thing is logged: what strangers cause must not fill the disk.

Of each remote address and outcome the first few of a minute are logged and the others counted.
Beyond some pairs of them, all further remotes count as one.
"""

from __future__ import annotations

from dataclasses import dataclass

LOGGED = 10
"""How many of a remote and an outcome are logged in a minute."""

PERIOD_S = 60.0

APART = 100
"""How many pairs of remote and outcome are counted apart within a minute."""

OTHERS = "others"
"""The remote that stands for all those that are not counted apart."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """So many of a minute that were not logged."""

    remote: str
    outcome: str
    count: int


@dataclass(slots=True)
class _Minute:
    begun: float
    count: int = 0


class Repeats:
    """What happened in the last minute, by remote and outcome; `now` is in seconds and never falls.

    >>> repeats = Repeats(logged=2)
    >>> [repeats.is_logged("10.0.0.7", "forbidden", now) for now in (0, 1, 2, 3)]
    [True, True, False, False]
    >>> repeats.ended(59), repeats.ended(60)
    ([], [PassedOver(remote='10.0.0.7', outcome='forbidden', count=2)])
    """

    def __init__(self, logged: int = LOGGED, apart: int = APART) -> None:
        """Begin without any."""
        self._logged = logged
        self._apart = apart
        self._minutes: dict[tuple[str, str], _Minute] = {}  # the longest begun first

    def is_logged(self, remote: str, outcome: str, now: float) -> bool:
        """Count one; returns whether to log it. Call `ended` with this `now` before."""
        minute = self._minutes.get((remote, outcome))
        if minute is None:
            whose = remote if len(self._minutes) < self._apart else OTHERS
            minute = self._minutes.setdefault((whose, outcome), _Minute(now))
        minute.count += 1
        return minute.count <= self._logged

    def ended(self, now: float) -> list[PassedOver]:
        """Drop the minutes that are over; returns what was passed over in them."""
        over = []
        for pair, minute in self._minutes.items():
            if now - minute.begun < PERIOD_S:
                break
            over.append(pair)
        counts = [(pair, self._minutes.pop(pair).count - self._logged) for pair in over]
        return [PassedOver(*pair, count) for pair, count in counts if count > 0]
