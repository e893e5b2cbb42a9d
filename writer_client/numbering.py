"""The order of a writer's requests: a number for each, above those of all before it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def unix_us() -> int:
    """Return the wall clock in Unix microseconds."""
    return time.time_ns() // 1000


class Numbers:
    """Gives each request of a writer its `sequence`.

    They begin at the clock, in microseconds, so that a writer that is started again is above its
    former self, of which nothing is stored. No request is made within a microsecond of the one
    before, so they stay at the clock unless it goes back.

    >>> numbers = Numbers(clock=lambda: 100)
    >>> numbers.take(), numbers.take()
    (100, 101)
    >>> numbers.go_above(500)
    >>> numbers.take()
    501
    """

    def __init__(self, clock: Callable[[], int] = unix_us) -> None:
        self._clock = clock
        self._last = 0

    def take(self) -> int:
        """Return the number of a new request."""
        self._last = max(self._last + 1, self._clock())
        return self._last

    def go_above(self, number: int) -> None:
        """Give out no number up to this one any more: it was taken already."""
        self._last = max(self._last, number)
