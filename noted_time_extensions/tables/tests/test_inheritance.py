"""Claims inherited by batch jobs are never too high, and exact in calm pipelines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random

import pytest

from noted_time_extensions.tables.table_history import ClaimStatus
from noted_time_extensions.tables.tests.support.pipeline_model import (
    INCREMENTAL_JOB,
    JOBS,
    Pipeline,
    Table,
    build_model,
)

PIPELINES = int(os.environ.get("NOTED_TIME_PIPELINES", "200"))
"""For each kind of table; 10,000 are deep."""

STEPS = 20
PARTS = 4

RARE = 1581
"""The seed of a history that rolls a change back while a job may read it."""


def find_false_claims(seed: int, *, is_numbered: bool, jobs: Sequence[str] = JOBS) -> list[str]:
    """Play a pipeline, and return the first false claims."""
    chance = Random(seed)
    pipeline = Pipeline(chance, build_model(chance, is_numbered=is_numbered), jobs)
    pipeline.begin()
    for step in range(STEPS):
        pipeline.act()
        if false_claims := pipeline.find_false_claims():
            return [f"{seed}, step {step}: {false_claim}" for false_claim in false_claims]
    return []


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("is_numbered", [True, False])
def test_inherited_claim_is_never_too_high(part: int, *, is_numbered: bool) -> None:
    """Tables are restored, recreated, rebuilt, accepted and expire while jobs run."""
    false_claims = []
    for seed in (RARE, *range(part, PIPELINES, PARTS)):
        false_claims += find_false_claims(seed, is_numbered=is_numbered)

    assert false_claims == []


@pytest.mark.parametrize("is_numbered", [True, False])
def test_inherited_claim_is_exact_without_restores(*, is_numbered: bool) -> None:
    """Jobs of every kind are run, also with fewer rows than before."""
    for seed in range(150):
        chance = Random(seed)
        pipeline = Pipeline(chance, build_model(chance, is_numbered=is_numbered))
        for table in pipeline.tables[:2]:
            for _ in range(chance.randrange(1, 6)):
                table.run_calmly(table.queries[0])
        for hop in pipeline.hops:
            expected = find_least_time(hop.sources)
            if expected is not None:
                expected -= hop.delay
            hop.run_job(chance.choice(JOBS), is_calm=True)
            assert find_time(hop) == expected, seed


def find_time(table: Table) -> int | None:
    return table.history().statuses().get(table.name, ClaimStatus()).complete_to


def find_least_time(sources: Sequence[Table]) -> int | None:
    """Return the least time that the sources claim, `None` if one of them claims none."""
    times = []
    for source in sources:
        time = find_time(source)
        if time is None:
            return None
        times.append(time)
    return min(times)


def test_a_filter_by_the_newest_time_breaks_the_promise_of_a_job() -> None:
    """Rows come in any order, and a table may have been put back."""
    assert any(
        find_false_claims(seed, is_numbered=True, jobs=[INCREMENTAL_JOB]) for seed in range(100)
    )
