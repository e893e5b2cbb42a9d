"""Which refused calls the log tells of one by one, and which it only counts.

A stranger makes as many refused calls as it likes, and must not fill the disk with lines. So of
each remote and outcome the first few of a minute are told, and the others counted; and of all
remotes beyond some, which a stranger with many addresses makes at will, as of one.
"""

from __future__ import annotations

from dataclasses import dataclass

TOLD = 10
"""How many refusals of a remote and an outcome are told in a minute."""

PERIOD_S = 60.0

APART = 100
"""How many pairs of remote and outcome are told apart within a minute."""

OTHERS = "others"
"""The remote that all those are which are not told apart."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """So many refusals of a minute that were not told."""

    remote: str
    outcome: str
    count: int


@dataclass(slots=True)
class _Minute:
    begun: float
    count: int = 0


class Refusals:
    """The refusals of the last minute, by remote and outcome; `now` is in seconds and never falls.

    >>> refusals = Refusals(told=2)
    >>> [refusals.is_told("10.0.0.7", "forbidden", now) for now in (0, 1, 2, 3)]
    [True, True, False, False]
    >>> refusals.ended(59), refusals.ended(60)
    ([], [PassedOver(remote='10.0.0.7', outcome='forbidden', count=2)])
    """

    def __init__(self, told: int = TOLD, apart: int = APART) -> None:
        """Begin without any."""
        self._told = told
        self._apart = apart
        self._minutes: dict[tuple[str, str], _Minute] = {}  # the longest begun first

    def is_told(self, remote: str, outcome: str, now: float) -> bool:
        """Count a refusal; returns whether to tell it. What `ended` by then is to be taken out."""
        minute = self._minutes.get((remote, outcome))
        if minute is None:
            whose = remote if len(self._minutes) < self._apart else OTHERS
            minute = self._minutes.setdefault((whose, outcome), _Minute(now))
        minute.count += 1
        return minute.count <= self._told

    def ended(self, now: float) -> list[PassedOver]:
        """Take out the minutes that are over; returns what was passed over in them."""
        over = []
        for pair, minute in self._minutes.items():
            if now - minute.begun < PERIOD_S:
                break
            over.append(pair)
        counts = [(pair, self._minutes.pop(pair).count - self._told) for pair in over]
        return [PassedOver(*pair, count) for pair, count in counts if count > 0]
