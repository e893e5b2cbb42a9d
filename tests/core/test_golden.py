"""The cases on which other engines' tests agree (tests/golden/README.md)."""

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from noted_time.rules import Aggregator
from noted_time.values import Note, State
from tests.support.streams import advance_all, deliver, make_stream

GOLDEN = Path(__file__).parents[1] / "golden" / "coalescing.json"
CASES: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
STATES: dict[str, State] = {"idle": "idle", "done": "finished"}


def domains_of(case: dict[str, Any]) -> tuple[str, ...]:
    """Return the domains of the case, or a new one if it has none."""
    used = {step["key"] for step in case["steps"] if "key" in step}
    return tuple(str(key) for key in sorted(used)) or ("0",)


def take_step(stream: Aggregator, step: dict[str, Any]) -> list[list[int]]:
    """Take one step, and return [key, lower] of every new mark."""
    domains = stream.settings.domains
    domain = str(step.get("key", domains[0]))
    writer = f"input-{step['input']}"
    state = STATES.get(step["op"], "live")
    deliver(stream, Note(writer, step.get("value"), domain=domain, state=state))
    marks = []
    for key in domains:
        for mark in advance_all(stream, key):
            marks.append([int(key), mark.lower])
    return marks


def test_the_file_of_cases_is_whole() -> None:
    """A case cannot be lost from the file unnoticed."""
    names = [case["name"] for case in CASES]

    assert (len(names), len(set(names))) == (24, 24)


@pytest.mark.parametrize("case", CASES, ids=itemgetter("name"))
def test_marks_match_watermarks_of_other_engines(case: dict[str, Any]) -> None:
    stream = make_stream(*(f"input-{i}" for i in range(case["inputs"])), domains=domains_of(case))

    for step in case["steps"]:
        assert take_step(stream, step) == step["expect"]
