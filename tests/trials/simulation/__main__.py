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
        trials = ((seed, find_broken(fix, seed)) for seed in seeds)
        seed, sentences = next((trial for trial in trials if trial[1]), ("none", [""]))
        say(seed, name, sentences[0])


def count(seeds: range) -> None:
    """Print how many schedules an hour are played, and how often each law is checked."""
    check_counts = Counter[str]()
    begun_s = time.process_time()
    for schedule_count, seed in enumerate(seeds, start=1):
        schedule = Schedule(seed)
        try:
            violations = schedule.run()
        except Exception as error:  # noqa: BLE001 - an answer that no client would understand
            violations = [repr(error)]
        if violations:
            say(seed, violations)
        check_counts += schedule.checked
        if schedule_count == len(seeds) or schedule_count % REPORT_EVERY == 0:
            per_hour = schedule_count / (time.process_time() - begun_s) * 3600
            say(
                f"{schedule_count:,} schedules, {per_hour:,.0f} an hour, "
                f"{check_counts.total():,} checks"
            )
    for name, times in sorted(check_counts.items()):
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
