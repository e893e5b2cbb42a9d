"""Decide when a client retries, and what to log."""

from __future__ import annotations

from dataclasses import dataclass
from random import SystemRandom

from noted_time.values import NotedTimeError, Rejected, UnexpectedAnswer, Unreachable

LONGEST_RETRY_AFTER_S = 300.0

draw_chance = SystemRandom().random
"""A separate random source, because programs may seed `random`."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """A schedule of delays in seconds that double from `first_s` to `cap_s`, with jitter.

    `chance` is a random number in [0, 1):

    >>> backoff = Backoff(first_s=0.1, cap_s=5.0)
    >>> [backoff.delay_s(failures, chance=0.0) for failures in (1, 2, 3, 10)]
    [0.05, 0.1, 0.2, 2.5]
    >>> backoff.delay_s(10**9, chance=0.5)
    3.75

    The controller's Retry-After, up to five minutes, is added:

    >>> backoff.delay_s(1, chance=0.0, retry_after_s=2.0)
    2.05
    """

    first_s: float = 0.05
    cap_s: float = 5.0

    def delay_s(self, failures: int, *, chance: float, retry_after_s: float | None = None) -> float:
        step = min(self.cap_s, self.first_s * 2.0 ** min(failures - 1, 60))
        floor_s = min(retry_after_s or 0.0, LONGEST_RETRY_AFTER_S)
        return floor_s + step * (0.5 + 0.5 * chance)


class Outage:
    """The outages that the threads or tasks of a client observe, by asker.

    Each method returns the sentence to log, if it was not logged before.

    >>> outage = Outage("the reader of stream 's'")
    >>> outage.record_failure(Unreachable("no route"), now=5.0)
    "the reader of stream 's': no response, retrying: no route"
    >>> outage.record_failure(Unreachable("no route"), now=6.0)
    >>> outage.record_answer(now=7.0)
    "the reader of stream 's': the controller responds again, after 2.0 s"
    """

    def __init__(self, subject: str) -> None:
        self._who = subject
        self._since: dict[str, float] = {}
        self._logged: set[str] = set()

    def record_failure(self, error: NotedTimeError, *, now: float, asker: str = "") -> str | None:
        self._since.setdefault(asker, now)
        kind = kind_of(error)
        if kind in self._logged:
            return None
        self._logged.add(kind)
        if isinstance(error, UnexpectedAnswer):
            return f"{self._who}: retrying after an unexpected answer: {error}"
        fact = "no response"
        if isinstance(error, Rejected):
            fact = "refused"
        return f"{self._who}: {fact}, retrying: {error}"

    def record_answer(self, *, now: float, asker: str = "") -> str | None:
        began_at = self._since.pop(asker, None)
        if began_at is None or self._since:
            return None
        self._logged.clear()
        return f"{self._who}: the controller responds again, after {now - began_at:.1f} s"


def kind_of(error: NotedTimeError) -> str:
    """Return a key of errors that are logged once.

    >>> kind_of(Unreachable("no route")), kind_of(Rejected("no such domain"))
    ('Unreachable', 'Rejected no such domain')
    """
    if isinstance(error, Unreachable):
        return type(error).__name__
    return f"{type(error).__name__} {getattr(error, 'status', error)}"


def delay_s(backoff: Backoff, failures: int, error: NotedTimeError, chance: float) -> float:
    floor_s = None
    if isinstance(error, Unreachable):
        floor_s = error.retry_after_s
    return backoff.delay_s(failures, chance=chance, retry_after_s=floor_s)
