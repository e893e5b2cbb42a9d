"""Waits for other processes, however busy the machine is."""

import time
from collections.abc import Callable

PATIENCE_S = 180.0
"""Long enough that only a failure waits for it, on any machine."""


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until it holds, or fail after `PATIENCE_S`."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, "it never held"
        time.sleep(0.01)
