"""`./run check`: every static check, also after one has failed, and the names of those that did."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path


def call(*words: str) -> int:
    """Run a program of this environment; returns its exit code."""
    return subprocess.run(words, check=False).returncode


def alembic_check() -> int:
    """Migrate an empty database, then ask Alembic whether it differs from the schema."""
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{Path(directory, 'check.db').as_posix()}"
        migration_code = call("noted-time", "migrate", "--database", url)
        return migration_code or call("alembic", "-x", f"database={url}", "check")


def reference() -> int:
    """Build the reference and throw it away."""
    with tempfile.TemporaryDirectory() as directory:
        return call("python", "docs/reference.py", directory)


CHECKS: dict[str, Callable[[], int]] = {
    "ruff check": partial(call, "ruff", "check"),
    "ruff format": partial(call, "ruff", "format", "--check"),
    "mypy --strict": partial(call, "mypy"),
    "import-linter": partial(call, "lint-imports", "--no-logo"),
    "alembic check": alembic_check,
    "reference": reference,
    "plain words": partial(call, "python", ".ci/words.py"),
    "plain code": partial(call, "python", ".ci/density.py"),
}


def main(arguments: list[str]) -> int:
    """Run all checks; returns 1 if one failed."""
    if arguments:
        print("run: ./run check takes no arguments.", file=sys.stderr)
        return 2
    failed_checks = []
    for name, check in CHECKS.items():
        print(f"\n== {name}", flush=True)
        if check():
            failed_checks.append(name)
    if failed_checks:
        print(f"\n== check: failed: {', '.join(failed_checks)}")
        return 1
    print("\n== check: all passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
