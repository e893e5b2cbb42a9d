"""The core's tests pass in a copy of this tree that lacks the folder `noted_time_extensions`."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.core_tests import PACKAGES, WITH_EXTENSIONS

PROCESSES = 2
LEFT_OUT = ("noted_time_extensions", "build", "dist", "__pycache__", ".*")
"""The folders that the copy does not have."""


@pytest.fixture
def copied(root: Path, tmp_path: Path) -> Path:
    """Return a copy of this tree, with a Python that does not find this one."""
    copied = tmp_path / "copied"
    shutil.copytree(root, copied, ignore=shutil.ignore_patterns(*LEFT_OUT))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", copied / ".venv"], check=True)
    paths = {"base": str(copied / ".venv"), "platbase": str(copied / ".venv")}
    packages = Path(sysconfig.get_path("purelib", vars=paths))
    (packages / "copied.pth").write_text(f"{sysconfig.get_path('purelib')}\n{copied}\n")
    return copied


def run(copied: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the copy's Python in the copy."""
    python = str(copied / ".venv" / "bin" / "python")
    kafka = os.environ.get("NOTED_TIME_KAFKA", str(Path(sys.prefix, "kafka")))
    spark = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    return subprocess.run(
        [python, *words],
        cwd=copied,
        env=os.environ | spark | {"NOTED_TIME_KAFKA": kafka},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_the_core_passes_its_tests_without_extensions(copied: Path) -> None:
    has_extensions = run(copied, "-c", "import noted_time_extensions").returncode == 0
    ignored = [f"--ignore={path}" for path in WITH_EXTENSIONS]
    spread = ("-n", str(PROCESSES), "--dist", "loadfile", "--max-worker-restart=0")
    tested = run(copied, "-m", "pytest", "-q", *spread, *ignored, *PACKAGES)

    assert not has_extensions
    assert tested.returncode == 0, tested.stdout
