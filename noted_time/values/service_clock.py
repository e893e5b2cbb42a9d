"""The clock that writer timeouts are measured on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ServiceClock:
    """Milliseconds during which some controller was serving.

    The caller measures how long it served and persists `now`; each step is capped, so that time in
    which the machine or the process stood still does not count as silence of the writers:

    >>> clock = ServiceClock(now=5000, step_cap_ms=1000)
    >>> clock.serve(250), clock.serve(3_600_000), clock.serve(-4)
    (5250, 6250, 6250)
    """

    now: int = 0
    step_cap_ms: int = 1000

    def serve(self, elapsed_ms: int) -> int:
        """Count `elapsed_ms` of serving, at most one step's cap; returns the new `now`."""
        self.now += min(max(elapsed_ms, 0), self.step_cap_ms)
        return self.now
