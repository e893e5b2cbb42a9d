"""The suites beside the ordinary one, which `./run test --NAME` runs."""

import os
from pathlib import Path

import pytest


def programs_of(name: str) -> Path:
    """Return the directory of the suite's own programs; without `--NAME` its tests are skipped."""
    programs = os.environ.get(f"NOTED_TIME_{name.upper()}")
    if programs is None:
        pytest.skip(f"a suite of its own: ./run test --{name}")
    return Path(programs)
