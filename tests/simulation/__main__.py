"""Find a seed for each fix that is taken back, or count what many schedules check.

usage: python -m tests.simulation find [SCHEDULES]
       python -m tests.simulation count [SCHEDULES]
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from functools import partial

import structlog

from tests.simulation.reverted import FIXES, broken
from tests.simulation.schedule import Schedule

say = partial(print, flush=True)


def find(schedules: int) -> None:
    """Print a seed for each fix of the list, or that none finds it."""
    for name, fix in FIXES.items():
        tried = ((seed, broken(fix, seed)) for seed in range(schedules))
        seed, sentences = next((each for each in tried if each[1]), ("none", [""]))
        say(seed, name, sentences[0])


def count(schedules: int) -> None:
    """Print how many schedules an hour are played, and how often each law is checked."""
    checked, begun = Counter[str](), time.process_time()
    for seed in range(schedules):
        schedule = Schedule(seed)
        if found := schedule.run():
            say(seed, found)
        checked += schedule.checked
    per_hour = schedules / (time.process_time() - begun) * 3600
    say(f"{per_hour:,.0f} schedules an hour")
    for name, times in sorted(checked.items()):
        say(f"{times:>12,} {name}")


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    command, schedules = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300
    {"find": find, "count": count}[command](schedules)
