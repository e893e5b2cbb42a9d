"""The distributions of this clone, each built twice to equal bytes."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Any

from noted_time import Rejected

ROOT = Path(__file__).resolve().parents[2]


def projects() -> list[Path]:
    """Return the directories with a distribution: this clone, and its integrations."""
    return [ROOT, *sorted(file.parent for file in ROOT.glob("integrations/*/pyproject.toml"))]


def metadata(project: Path = ROOT) -> dict[str, Any]:
    """Return the metadata of a project's pyproject.toml."""
    project_table: dict[str, Any] = tomllib.loads((project / "pyproject.toml").read_text())[
        "project"
    ]
    return project_table


def distributions(project: Path, tools: Path, scratch: Path) -> list[Path]:
    """Return the sdist and the wheel of a project, built with the programs in `tools`.

    The wheel is built from the sdist, which so has all that it needs. Raises `Rejected` if they
    have other bytes when they are built again.
    """
    first = build(project, tools, scratch / "first")
    build(project, tools, scratch / "again")
    require_equal(scratch / "first", scratch / "again")
    return first


def build(project: Path, tools: Path, directory: Path) -> list[Path]:
    """Build sdist and wheel into a directory, dated by the commit."""
    words = ["-m", "build", "--no-isolation", "--outdir", str(directory), str(project)]
    run_program([str(tools / "python"), *words], {"SOURCE_DATE_EPOCH": commit("%ct")})
    return sorted(directory.iterdir())


def commit(form: str) -> str:
    """Return the last commit in a format of git."""
    return run_program(["git", "-C", str(ROOT), "log", "-1", f"--format={form}"]).strip()


def changes() -> list[str]:
    """Return the files of this clone that differ from the last commit, or are not in it."""
    return run_program(["git", "-C", str(ROOT), "status", "--porcelain"]).splitlines()


def check(tools: Path, built_files: Sequence[Path]) -> None:
    """Check metadata and description as an index would; raises `Rejected` with the faults."""
    words = [str(tools / "python"), "-m", "twine", "check", "--strict"]
    words += [str(file) for file in built_files]
    run_program(words)


def require_equal(first: Path, second: Path) -> None:
    """Raise `Rejected` with the names of files that differ between two directories."""
    changed_digests = _compute_digests(first).items() ^ _compute_digests(second).items()
    names = {name for name, _ in changed_digests}
    if names:
        raise Rejected(f"built again, these have other bytes: {', '.join(sorted(names))}")


def digest(file: Path, algorithm: str = "sha256") -> str:
    """Return the digest of a file, in hexadecimal digits."""
    with file.open("rb") as opened_file:
        return file_digest(opened_file, algorithm).hexdigest()


def run_program(words: Sequence[str], more: dict[str, str] | None = None) -> str:
    """Run a program; return its output, or raise `Rejected` with it."""
    process = subprocess.run(
        words,
        env={**os.environ, **(more or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if process.returncode:
        raise Rejected(
            f"`{' '.join(words)}` ended with status {process.returncode}:\n{process.stdout}"
        )
    return process.stdout


def _compute_digests(directory: Path) -> dict[str, str]:
    """Return the digest of each file below a directory, by its path there."""
    digests = {}
    for file in directory.rglob("*"):
        if file.is_file():
            digests[file.relative_to(directory).as_posix()] = digest(file)
    return digests
