"""Waits for other threads and processes, however busy the machine is."""

import time
from collections.abc import Callable

PATIENCE_S = 180.0
"""Long enough that only a failure waits for it, on any machine."""


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until `holds` returns true, or fail after `PATIENCE_S`."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, "it never held"
        time.sleep(0.01)


def eventually(observe: Callable[[], object], expected: object) -> bool:
    """Wait until `observe()` returns `expected`, or fail with the last value."""
    until = time.monotonic() + PATIENCE_S
    while (observed_value := observe()) != expected:
        assert time.monotonic() < until, f"still {observed_value}, not {expected}"
        time.sleep(0.05)
    return True


def slowdown() -> float:
    """Return how many times longer a process takes now than on an idle machine."""
    begun_s = time.monotonic()
    used = time.process_time()
    while time.process_time() < used + 0.05:
        pass
    return max(1.0, (time.monotonic() - begun_s) / 0.05)
