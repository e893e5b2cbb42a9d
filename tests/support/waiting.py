"""How a test waits for what other threads and processes do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def eventually(observe: Callable[[], object], expected: object, timeout_s: float = 60.0) -> bool:
    """Return whether `observe()` comes to equal `expected`; what it is instead fails loudly."""
    until = time.monotonic() + timeout_s
    while (seen := observe()) != expected:
        assert time.monotonic() < until, f"still {seen}, not {expected}"
        time.sleep(0.05)
    return True
