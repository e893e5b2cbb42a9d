"""Find a seed for each fix that is taken back, or count what many schedules check."""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter
from functools import partial

import structlog

from tests.trials.simulation.reverted import FIXES, find_broken
from tests.trials.simulation.schedule import Schedule

say = partial(print, flush=True)

REPORT_EVERY = 1000


def find(seeds: range) -> None:
    """Print a seed for each fix of the list, or that none finds it."""
    for name, fix in FIXES.items():
        tried = ((seed, find_broken(fix, seed)) for seed in seeds)
        seed, sentences = next((each for each in tried if each[1]), ("none", [""]))
        say(seed, name, sentences[0])


def count(seeds: range) -> None:
    """Print how many schedules an hour are played, and how often each law is checked."""
    checked, begun = Counter[str](), time.process_time()
    for played, seed in enumerate(seeds, start=1):
        schedule = Schedule(seed)
        try:
            found = schedule.run()
        except Exception as error:  # noqa: BLE001 - an answer that no client would understand
            found = [repr(error)]
        if found:
            say(seed, found)
        checked += schedule.checked
        if played == len(seeds) or played % REPORT_EVERY == 0:
            per_hour = played / (time.process_time() - begun) * 3600
            say(f"{played:,} schedules, {per_hour:,.0f} an hour, {checked.total():,} checks")
    for name, times in sorted(checked.items()):
        say(f"{times:>12,} {name}")


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    commands = {"find": find, "count": count}
    parser = argparse.ArgumentParser("python -m tests.trials.simulation", description=__doc__)
    parser.add_argument("command", choices=commands)
    parser.add_argument("schedules", nargs="?", type=int, default=300)
    parser.add_argument("first", nargs="?", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    commands[given.command](range(given.first, given.first + given.schedules))
