"""Where the controller reads time: the only place that does."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.aggregation.draft import Moment
from noted_time import ServiceClock

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Clocks:
    """The wall clock, a steady one, and the service clock that steps with it.

    A controller reads them several times a second while it serves, so a gap between two readings
    beyond the service clock's step cap was a pause of the process or the machine, in which no
    writer could have been heard.
    """

    service: ServiceClock = field(default_factory=ServiceClock)
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    _last_steady: int | None = None

    def read(self) -> Moment:
        """Read all three at once."""
        steady = self.steady_ms()
        if self._last_steady is not None:
            self.service.serve(steady - self._last_steady)
        self._last_steady = steady
        return Moment(service=self.service.now, wall=self.wall_ms(), steady=steady)
