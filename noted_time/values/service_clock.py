"""The clock that measures writer timeouts."""

from __future__ import annotations

from msgspec import Struct


class ServiceClock(Struct):
    """Milliseconds during which a controller was serving.

    Each step is capped, so a pause of machine or process is not silence of the writers:

    >>> clock = ServiceClock(now=5000, step_cap_ms=1000)
    >>> clock.serve(250), clock.serve(3_600_000), clock.serve(-4)
    (5250, 6250, 6250)
    """

    now: int = 0
    step_cap_ms: int = 1000

    def serve(self, elapsed_ms: int) -> int:
        """Add `elapsed_ms`, at most `step_cap_ms`, and return `now`."""
        self.now += min(max(elapsed_ms, 0), self.step_cap_ms)
        return self.now
