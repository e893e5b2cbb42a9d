"""How a test waits for what other threads and processes do, however busy the machine is."""

import time
from collections.abc import Callable

from demo.trials.waiting import PATIENCE_S, wait_until

__all__ = ["PATIENCE_S", "eventually", "slowdown", "wait_until"]


def eventually(observe: Callable[[], object], expected: object) -> bool:
    """Return whether `observe()` comes to equal `expected`; what it is instead fails loudly."""
    until = time.monotonic() + PATIENCE_S
    while (seen := observe()) != expected:
        assert time.monotonic() < until, f"still {seen}, not {expected}"
        time.sleep(0.05)
    return True


def slowdown() -> float:
    """Return how many times longer than alone a process takes beside the others of this machine.

    A duration is asserted as a multiple of it.
    """
    begun, used = time.monotonic(), time.process_time()
    while time.process_time() < used + 0.05:
        pass
    return max(1.0, (time.monotonic() - begun) / 0.05)
