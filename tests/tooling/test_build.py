"""What a build runs, and what the layers cannot check by themselves."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CLOCKS_AND_CHANCE = {"time", "random", "secrets", "uuid"}
READING_A_CLOCK = {"now", "utcnow", "today"}
"""The clock functions of `datetime`; converting a given time involves no chance."""


def imported(module: Path) -> Iterator[str]:
    """Yield the top-level names that a module imports from elsewhere."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").partition(".")[0]


def build(directory: Path, root: Path, *, test: int, check: int) -> tuple[int, str]:
    """Run .ci/run over a ./run that only prints its name; return the exit code and the output."""
    (directory / ".ci").mkdir()
    (directory / ".ci" / "run").write_bytes((root / ".ci" / "run").read_bytes())
    (directory / "run").write_text(
        f'#!/bin/sh\necho "$1"\ncase $1 in test) exit {test};; check) exit {check};; esac\n'
    )
    (directory / "run").chmod(0o755)
    done = subprocess.run(
        ["bash", ".ci/run"], cwd=directory, stdout=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
@pytest.mark.parametrize(
    ("test", "check", "expected"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (5, 1, 1)]
)
def test_a_build_checks_even_what_fails_its_tests(
    tmp_path: Path, root: Path, test: int, check: int, expected: int
) -> None:
    """One build reports everything that is wrong, and is red if anything is.

    It tests with the newest Spark, and with the oldest.
    """
    code, said = build(tmp_path, root, test=test, check=check)

    assert (bool(code), said) == (bool(expected), "test\ntest\ncheck\n")


def test_the_core_imports_the_standard_library_only(root: Path) -> None:
    """And of it neither a clock nor chance: import-linter cannot express `nothing else`."""
    allowed = (sys.stdlib_module_names | {"noted_time"}) - CLOCKS_AND_CHANCE
    core = root / "noted_time"
    beyond = {core / "client", core / "kafka"}  # which ask controllers and brokers
    modules = [each for each in core.rglob("*.py") if beyond.isdisjoint(each.parents)]

    assert {name for module in modules for name in imported(module)} - allowed == set()


def test_the_core_reads_no_clock(root: Path) -> None:
    """It takes `datetime`s, and never makes one of the present moment."""
    trees = (ast.parse(module.read_text()) for module in (root / "noted_time").rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    called = {
        node.func.attr
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }

    assert called & READING_A_CLOCK == set()
