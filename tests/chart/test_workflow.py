"""The linter of GitHub's workflows."""

import subprocess
from pathlib import Path

from tests.chart.conftest import build

ROOT = Path(__file__).parents[2]
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"


def test_workflow_has_no_fault(programs: Path) -> None:
    linter = build(programs / "actionlint", ACTIONLINT, cwd=programs)

    process = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (process.returncode, process.stdout) == (0, "")
