from pathlib import Path

import pytest

from benchmarks.figures import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return the smallest run, without a report."""
    return Run(quick=True, directory=tmp_path, say=lambda _: None)
