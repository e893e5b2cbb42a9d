"""The wall clock of writers and observers."""

from __future__ import annotations

import time


def unix_ms() -> int:
    return time.time_ns() // 1_000_000
