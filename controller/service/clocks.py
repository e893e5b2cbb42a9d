"""The controller's clocks and its chance: the only place where it reads time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from controller.aggregation.draft import Moment
from noted_time import ServiceClock


@dataclass(slots=True)
class Clocks:
    """The wall clock, a steady one, and the service clock that steps with it.

    Only `serve` advances the service clock. The task that takes notes calls it whenever it is about
    to take some: several times a second, but not while it waits for the database. Each step is
    capped. So neither a pause of the process nor a commit that hangs counts as silence of the
    writers, whose notes could not be taken meanwhile.
    """

    service: ServiceClock = field(default_factory=ServiceClock)
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    chance: Random = field(default_factory=Random)
    _served_at: int | None = None

    def read(self) -> Moment:
        """Read all three at once."""
        return Moment(self.service.now, self.wall_ms(), self.steady_ms())

    def serve(self) -> None:
        """Count the time since the last call as served, at most a step."""
        steady = self.steady_ms()
        if self._served_at is not None:
            self.service.serve(steady - self._served_at)
        self._served_at = steady

    def pass_over(self) -> None:
        """Do not count the time since the last call of `serve`."""
        self._served_at = self.steady_ms()
