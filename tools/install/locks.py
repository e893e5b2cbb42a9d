"""`./run lock`: make all locks again, for every platform and without a URL."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from tools.install.environments import LOCK, LOCKS, ROOT, call, fail, read

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = "pyproject.toml"
UNIVERSAL = ("--universal", "--python-version", "3.11", "--generate-hashes", "--no-header")

# dbt needs it for --use-v2-parser alone, and its build downloads a program from elsewhere
UNUSED = "dbt-core-experimental-parser"


def sources() -> dict[Path, tuple[str, ...]]:
    """Return the sources of each lock."""
    extras = ("--extra", "controller", "--extra", "kafka")
    same_versions = ("-c", f"locks/{LOCK.name}")
    lean = (PROJECT, "locks/lean.in", *extras, *same_versions)
    analyse = (*lean, "--extra", "files", "--extra", "analyse")
    return {
        LOCK: (PROJECT, "--all-extras", "--group", "dev"),
        LOCKS / "container.lock": (PROJECT, *extras, *same_versions),
        **{source.with_suffix(".lock"): (f"locks/{source.name}",) for source in LOCKS.glob("*.in")},
        LOCKS / "lean.lock": lean,
        LOCKS / "analyse.lock": analyse,
        LOCKS / "demo.lock": (*analyse, "locks/demo.in"),
    }


def main(arguments: list[str]) -> int:
    """Have uv compile each, with these arguments; returns the exit code."""
    if not shutil.which("uv"):
        fail("./run lock needs uv on the PATH (pip install uv).")
    os.chdir(ROOT)
    for target, source in sources().items():
        words = ("uv", "pip", "compile", "--quiet", *source, *UNIVERSAL)
        output_words = ("--no-emit-package", UNUSED, "-o", f"locks/{target.name}")
        if call(os.environ, *words, *output_words, *arguments):
            fail(f"uv could not make {target.name}, see above.")
        if "://" in read(target):
            fail(f"{target.name} contains a URL: make it without an index in uv's settings.")
    return 0
