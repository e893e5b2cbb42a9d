"""What tables of batch jobs inherit: never too much, and all that is true in calm pipelines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from noted_time.reading import Standing, TableHistory, claims
from noted_time.tables import Pin, pins
from tests.support.pipeline_model import INCREMENTAL_JOB, JOBS, Pipeline, Table, build_model

PIPELINES = int(os.environ.get("NOTED_TIME_PIPELINES", "200"))
"""For each kind of table; 10,000 are deep."""

STEPS = 20
PARTS = 4


def too_high(seed: int, *, is_numbered: bool, jobs: Sequence[str] = JOBS) -> list[str]:
    """Play a pipeline, and return the first false claims."""
    chance = Random(seed)
    pipeline = Pipeline(chance, build_model(chance, is_numbered=is_numbered), jobs)
    pipeline.begin()
    for step in range(STEPS):
        pipeline.act()
        if found := pipeline.find_false_claims():
            return [f"{seed}, step {step}: {each}" for each in found]
    return []


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("is_numbered", [True, False])
def test_no_inherited_claim_is_too_high(part: int, *, is_numbered: bool) -> None:
    """While jobs run, tables are restored, recreated, rebuilt and accepted, and expire."""
    seeds = range(part, PIPELINES, PARTS)
    found = [each for seed in seeds for each in too_high(seed, is_numbered=is_numbered)]

    assert found == []


@pytest.mark.parametrize("is_numbered", [True, False])
def test_all_that_the_sources_claim_is_inherited_where_nothing_is_put_back(
    *, is_numbered: bool
) -> None:
    """Whatever the job does with its table, and also if its rows are fewer than before."""
    for seed in range(150):
        chance = Random(seed)
        pipeline = Pipeline(chance, build_model(chance, is_numbered=is_numbered))
        for table in pipeline.tables[:2]:
            for _ in range(chance.randrange(1, 6)):
                table.run_calmly()
        for each in pipeline.hops:
            times = [find_time(source) for source in each.sources]
            each.run_job(chance.choice(JOBS), is_calm=True)
            known = [time for time in times if time is not None]
            expected = min(known) - each.delay if len(known) == len(times) else None
            assert find_time(each) == expected, seed


def find_time(table: Table) -> int | None:
    return table.history().standings().get(table.name, Standing()).complete_to


_judge, _find_change = pins.judge_source, pins._find_change
_fingerprint = pins._compute_fingerprint


def mark_without(history: TableHistory) -> str:
    """Return the mark of a pin without the moment when its snapshot became current."""
    commits = [replace(each, current_since=0) for each in history.commits]
    return _fingerprint(replace(history, commits=commits))


BROKEN: dict[str, tuple[object, str, Any, int]] = {
    "a source that changes while a job may read it": (
        pins,
        "_find_change",
        lambda history, version, merging=(): "" if merging else _find_change(history, version),
        37,
    ),
    "another commit of the number that was pinned": (
        pins,
        "_compute_fingerprint",
        lambda _: "0" * 16,
        170,
    ),
    "a change that is rolled back while a job may read it": (
        pins,
        "_compute_fingerprint",
        mark_without,
        1581,
    ),
    "the version that is current when the job ends": (
        pins,
        "judge_source",
        lambda pin, history: _judge(Pin.of(pin.table, history), history),
        2,
    ),
    "a table that is changed beside the record": (
        claims._Fold,
        "_find_doubt_of_accepted",
        lambda *_: "",
        15,
    ),
}
"""For each rule: what is replaced so that it is not kept, and a seed of a history that needs it."""


@pytest.mark.parametrize("fault", BROKEN)
def test_each_false_claim_is_found_again_without_its_rule(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the pipelines reach it."""
    where, name, broken, known = BROKEN[fault]
    monkeypatch.setattr(where, name, broken)

    seeds = (known, *range(20_000))
    assert any(too_high(seed, is_numbered=seed % 2 == 0) for seed in seeds)


def test_a_filter_by_the_newest_time_breaks_the_promise_of_a_job() -> None:
    """Rows come in any order, and a table may have been put back."""
    assert any(too_high(seed, is_numbered=True, jobs=[INCREMENTAL_JOB]) for seed in range(100))
