"""The suites that `./run test --NAME` runs."""

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from locks.suites import NAMED

TESTS = Path(__file__).resolve().parents[1]
WHOLE = tuple(suite.name for suite in NAMED if not suite.installs)
"""Suites that are skipped whole; in others a test is, once it asks for a program of the suite."""


def find_programs(name: str) -> Path:
    """Return the directory of the suite's programs; without `--NAME` its tests are skipped."""
    programs = os.environ.get(_variable(name))
    if programs is None:
        pytest.skip(_reason(name))
    return Path(programs)


def skip_others(items: Iterable[pytest.Item]) -> None:
    """Skip the tests of other suites."""
    others = {name for name in WHOLE if _variable(name) not in os.environ}
    for item in items:
        if (name := _suite_of(item.path)) in others:
            item.add_marker(pytest.mark.skip(reason=_reason(name)))


@cache
def _suite_of(path: Path) -> str:
    return path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""


def _variable(name: str) -> str:
    return f"NOTED_TIME_{name.upper()}"


def _reason(name: str) -> str:
    return f"a suite of its own: ./run test --{name}"
