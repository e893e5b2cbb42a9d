"""The suites that `./run test --NAME` runs."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tools.install.suites import NAMED

ROOT = Path(__file__).resolve().parents[2]
WHOLE = tuple(suite for suite in NAMED if not suite.installs)
"""Suites that are skipped whole; in others a test is, once it asks for a program of the suite."""


def find_programs(name: str) -> Path:
    """Return the directory of the suite's programs; without `--NAME` its tests are skipped."""
    programs = os.environ.get(_variable(name))
    if programs is None:
        pytest.skip(_reason(name))
    return Path(programs)


def skip_others(items: Iterable[pytest.Item]) -> None:
    """Skip the tests of other suites."""
    names = {}
    for suite in WHOLE:
        if _variable(suite.name) in os.environ:
            continue
        for path in suite.folders:
            names[ROOT / path] = suite.name
    for item in items:
        for folder, name in names.items():
            if item.path.is_relative_to(folder):
                item.add_marker(pytest.mark.skip(reason=_reason(name)))


def _variable(name: str) -> str:
    return f"NOTED_TIME_{name.upper()}"


def _reason(name: str) -> str:
    return f"a suite of its own: ./run test --{name}"
