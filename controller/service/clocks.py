"""The controller's clocks and random numbers; no other module reads time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from controller.aggregation.draft import Moment
from noted_time.values import ServiceClock


@dataclass(slots=True)
class Clocks:
    """The wall clock, a monotonic clock, and the service clock.

    Only `serve` advances the service clock, in capped steps. It is not called during a commit, so a
    pause of process or database is not silence of the writers.
    """

    service: ServiceClock = field(default_factory=ServiceClock)
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    chance: Random = field(default_factory=Random)
    _served_at: int | None = None
    _wall_ahead: int = 0

    def read(self) -> Moment:
        return Moment(self.service.now, self.wall_ms(), self.steady_ms())

    def find_step(self, moment: Moment) -> int:
        """Return by how many ms the wall clock moved against the monotonic clock since last time.

        >>> clocks = Clocks()
        >>> [clocks.find_step(Moment(0, wall, steady)) for wall, steady in ((50, 7), (950, 17))]
        [43, 890]
        """
        step_ms = moment.wall - moment.steady - self._wall_ahead
        self._wall_ahead += step_ms
        return step_ms

    def serve(self) -> None:
        steady = self.steady_ms()
        if self._served_at is not None:
            self.service.serve(steady - self._served_at)
        self._served_at = steady

    def pass_over(self) -> None:
        """Do not count the time since the last call of `serve`."""
        self._served_at = self.steady_ms()
