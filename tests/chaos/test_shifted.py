"""A process whose wall clock is wrong, and no other clock."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.support.processes import environment

HOURS_MS = 5 * 3_600_000
SCRIPT = f"""
from tests.chaos.shifted import shift
shift({HOURS_MS})
import time
print(time.time_ns() // 1_000_000, time.time(), time.monotonic())
"""


def test_only_the_wall_clock_is_shifted() -> None:
    """In milliseconds and in seconds alike; the steady clock goes as it should."""
    said = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    wall_ms, wall_s, steady = (float(each) for each in said)

    true_ms = time.time_ns() / 1_000_000 + HOURS_MS
    assert abs(true_ms - wall_ms) < 60_000
    assert abs(true_ms / 1000 - wall_s) < 60
    assert abs(time.monotonic() - steady) < 60
