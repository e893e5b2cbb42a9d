"""When to try again after a controller did not answer."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_RETRY_AFTER_S = 300.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """A schedule of delays in seconds: doubling from `first_s` to `cap_s`, spread by chance.

    `chance` is a number in [0, 1) from the caller; a delay lies between half of its step and the
    whole, so that clients that failed together do not come back together:

    >>> backoff = Backoff(first_s=0.1, cap_s=5.0)
    >>> [backoff.delay_s(failures, chance=0.0) for failures in (1, 2, 3, 10)]
    [0.05, 0.1, 0.2, 2.5]
    >>> backoff.delay_s(10**9, chance=0.5)
    3.75

    What the controller asked for (Retry-After) is a floor, up to five minutes:

    >>> backoff.delay_s(1, chance=0.0, retry_after_s=2.0)
    2.05
    """

    first_s: float = 0.05
    cap_s: float = 5.0

    def delay_s(self, failures: int, *, chance: float, retry_after_s: float | None = None) -> float:
        """Return how long to wait after that many failures in a row (from 1 on)."""
        step = min(self.cap_s, self.first_s * 2.0 ** min(failures - 1, 60))
        asked = min(retry_after_s or 0.0, LONGEST_RETRY_AFTER_S)
        return asked + step * (0.5 + 0.5 * chance)
