"""The core's tests pass in a copy of this tree that lacks the folder `noted_time_extensions`."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.core_tests import FOLDERS, ONLY_IMPORTED, WITH_EXTENSIONS
from tools.install.suites import NAMED

PROCESSES = 2
LEFT_OUT = ("noted_time_extensions", "build", "dist", "__pycache__", ".*")
"""Files that are not copied."""

ROOT = Path(__file__).resolve().parents[2]


LIMIT_S = 1800

MADE_ONCE = ("kafka", "classes")
"""Directories of an environment without packages: jars, and archives that let Java start faster."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a copy of this tree, whose Python has our packages but does not find this tree."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*LEFT_OUT))
    home = clone / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    paths = {"base": str(home), "platbase": str(home)}
    packages = Path(sysconfig.get_path("purelib", vars=paths))
    (packages / "clone.pth").write_text(f"{sysconfig.get_path('purelib')}\n{clone}\n")
    for name in MADE_ONCE:
        folder = Path(sys.prefix, name)
        if folder.exists():
            (home / name).symlink_to(folder)
    return clone


def ignore(folders: Iterable[str]) -> list[str]:
    """Return the options of pytest that leave these folders out."""
    return [f"--ignore={folder}" for folder in folders]


def run(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the copy's Python in the copy."""
    python = str(clone / ".venv" / "bin" / "python")
    return subprocess.run(
        [python, *words],
        cwd=clone,
        env=os.environ | {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.timeout(LIMIT_S)
def test_the_core_passes_its_tests_without_extensions(clone: Path) -> None:
    """`tests/support/core_tests.py` says which tests are left out, and why."""
    excluded = [*WITH_EXTENSIONS]
    for suite in NAMED:
        excluded += suite.folders
    import_run = run(clone, "-c", "import noted_time_extensions")
    collection_run = run(clone, "-m", "pytest", "-q", "--collect-only", *ignore(excluded), *FOLDERS)
    options = ["-n", str(PROCESSES), "--dist", "loadfile", "--max-worker-restart=0"]
    options += ignore([*excluded, *ONLY_IMPORTED])
    test_run = run(clone, "-m", "pytest", "-q", *options, *FOLDERS)

    assert "No module named 'noted_time_extensions'" in import_run.stdout
    assert collection_run.returncode == 0, collection_run.stdout
    assert test_run.returncode == 0, test_run.stdout
