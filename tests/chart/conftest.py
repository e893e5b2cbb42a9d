"""Helm and the checkers of its output. Go builds them once, into the suite's directory."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.chart.rendered import Chart
from tests.support.suites import find_programs

HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
STRICT = Path(__file__).parent / "strict"


def build(program: Path, *words: str, cwd: Path) -> Path:
    """Return the program, which Go puts into its directory unless it is there."""
    if not program.exists():
        if not shutil.which("go"):
            pytest.skip(f"{program.name} is built by Go, which is not installed")
        env = os.environ | {"GOBIN": str(program.parent)}
        result = subprocess.run(
            ["go", "install", *words], cwd=cwd, env=env, capture_output=True, text=True, check=False
        )
        if result.returncode:  # as without a network, or with an older Go
            pytest.skip(f"Go could not build {program.name}: {result.stderr[-300:]}")
    return program


@pytest.fixture(scope="session")
def programs() -> Path:
    """Return the directory of the suite's programs."""
    return find_programs("chart")


@pytest.fixture(scope="session")
def chart(programs: Path) -> Chart:
    """Return the chart, with the real Helm."""
    return Chart(build(programs / "helm", HELM, cwd=programs))


@pytest.fixture(scope="session")
def strict(programs: Path) -> Path:
    """Return the program that reads objects of the Prometheus operator by the operator's types."""
    return build(programs / "strict", ".", cwd=STRICT)
