"""Schedules of two or three controllers over one database, from seeds."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings

from tests.trials.actors.workload import HAPPENED
from tests.trials.simulation.reverted import FIXES, Reverted, find_broken
from tests.trials.simulation.schedule import Schedule
from tests.trials.simulation.workload import WorkloadSchedule

PARTS = 20
WORKLOADS = 4
MANY = max(400, 10 * settings().max_examples) // PARTS


@pytest.mark.parametrize("part", range(PARTS))
def test_schedules_break_no_law(part: int) -> None:
    """A seed that does is replayed by its number."""
    seeds = range(part * MANY, (part + 1) * MANY)

    faults = {seed: violations for seed in seeds if (violations := Schedule(seed).run())}
    assert not faults


def test_a_seed_is_replayed() -> None:
    """All is chosen from it."""
    first = Schedule(1)
    second = Schedule(1)

    assert (first.run(), first.answers) == (second.run(), second.answers)


def test_actors_of_chaos_break_no_law_in_virtual_time() -> None:
    """There is some of everything that they try."""
    broken = []
    tried_counts = Counter[str]()
    for seed in range(WORKLOADS):
        schedule = WorkloadSchedule(seed)
        broken += [(seed, violation) for violation in schedule.run()]
        tried_counts.update(schedule.workload.count_tried())

    assert (broken, min(tried_counts[happening] for happening in HAPPENED) > 0) == ([], True)


@pytest.mark.parametrize("fix", FIXES.values(), ids=FIXES.keys())
def test_a_fix_that_is_taken_back_is_missed(fix: Reverted) -> None:
    """By the seed kept with it; `python -m tests.trials.simulation find` finds the seeds again."""
    assert find_broken(fix, fix.seed)
