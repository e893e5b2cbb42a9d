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

    A controller reads them several times a second while it serves, so a gap between two readings
    beyond the service clock's step cap was a pause of the process or the machine, in which no
    writer could have been heard.
    """

    service: ServiceClock = field(default_factory=ServiceClock)
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    _last_steady: int | None = None
    _woke_at: int | None = None

    def read(self) -> Moment:
        """Read all three at once."""
        steady = self.steady_ms()
        if self._last_steady is not None:
            self.service.serve(steady - self._last_steady)
            if steady - self._last_steady > PAUSE_MS:
                self._woke_at = steady
        self._last_steady = steady
        return Moment(service=self.service.now, wall=self.wall_ms(), steady=steady)

    def is_waking(self) -> bool:
        """Whether this process was paused until a moment ago.

        Then what it finds in its sockets may be old, and whoever sent that has hung up, which the
        process learns only when it reads on.
        """
        steady = self.steady_ms()
        if self._last_steady is not None and steady - self._last_steady > PAUSE_MS:
            self.read()
        return self._woke_at is not None and steady - self._woke_at < WAKING_MS
