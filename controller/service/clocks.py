"""Where the controller reads time: the only place that does."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.aggregation.draft import Moment
from noted_time import ServiceClock

if TYPE_CHECKING:
    from collections.abc import Callable


PAUSE_MS = 500
"""A longer gap between two readings was a pause: while it serves there are ten a second."""

WAKING_MS = 250
"""For how long after a pause what comes may be old."""


@dataclass(slots=True)
class Clocks:
    """The wall clock, a steady one, and the service clock that steps with it.

    The service clock goes on by `serve` alone, which the task calls that takes in notes, whenever
    it is about to: several times a second, but not while it waits for the database. Each step is
    capped. So neither a pause of the process nor a commit that hangs counts as silence of the
    writers, whose notes could not be taken meanwhile.
    """

    service: ServiceClock = field(default_factory=ServiceClock)
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    _served_at: int | None = None
    _read_at: int | None = None
    _woke_at: int | None = None

    def read(self) -> Moment:
        """Read all three at once."""
        steady = self.steady_ms()
        if self._read_at is not None and steady - self._read_at > PAUSE_MS:
            self._woke_at = steady
        self._read_at = steady
        return Moment(service=self.service.now, wall=self.wall_ms(), steady=steady)

    def serve(self) -> None:
        """Count the time since the last call as served, at most a step."""
        steady = self.steady_ms()
        if self._served_at is not None:
            self.service.serve(steady - self._served_at)
        self._served_at = steady

    def pass_over(self) -> None:
        """Count the time since then for nobody."""
        self._served_at = self.steady_ms()

    def is_waking(self) -> bool:
        """Whether this process was paused until a moment ago.

        Then what it finds in its sockets may be old, and whoever sent that has hung up, which the
        process learns only when it reads on.
        """
        steady = self.steady_ms()
        if self._read_at is not None and steady - self._read_at > PAUSE_MS:
            self.read()
        return self._woke_at is not None and steady - self._woke_at < WAKING_MS
