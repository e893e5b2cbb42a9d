"""The code of other versions, from the history of this clone, and controllers that run it."""

import subprocess
from pathlib import Path

import pytest

from tests.support.processes import ROOT, ServeProcess

FIRST_RELEASE = "f98484ff540ee2613c07145fdad6b0798540abad"
"""The commit of version 0.1.0."""

UPGRADE_BASE = "9e4f41b8e4815c4b4dc22f79b6fdb7f4602c6ef7"
"""The commit from which on controllers of two versions run side by side."""

PACKAGES = (
    *("controller", "migrations", "noted_time", "noted_time_cli"),
    *("reader_client", "spark_integration", "writer_client"),
)
"""Those of a version; 0.1.0 has one less."""

PRESENT = ROOT


def code_of(commit: str, into: Path) -> Path:
    """Unpack the packages of a commit; without the history the test is skipped."""
    known = ["git", "-C", str(ROOT), "ls-tree", "--name-only", commit]
    listed = subprocess.run(known, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip(f"the history of this clone does not have {commit[:7]}")
    names = [each for each in PACKAGES if each in listed.stdout.split()]
    into.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, *names], capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(into)], input=archive.stdout, check=True)
    return into


def serve(code: Path, directory: Path, database: str, port: int = 0) -> ServeProcess:
    """Start a controller that runs that code on the database, and wait until it listens."""
    process = ServeProcess(directory, "--database", database, port=port, PYTHONPATH=str(code))
    return process.ready()
