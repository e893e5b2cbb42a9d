"""Change the code in small ways, and count the changes that the tests notice.

usage: ./run mutants [ROOM ...] [--module FILE] [--sample N] [--seed S] [--full]

mutmut makes the mutants in build/mutants and runs the tests that call the changed function. Every
mutant counts that no test finds, also one that runs out of time. A second call continues the first
one, as long as the code stays the same; `--sample` tries that many mutants, chosen by the seed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random

from tests.mutants.rooms import ROOMS, Room
from tests.tooling import wheels

say = partial(print, flush=True)

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (*wheels.PACKAGES, "migrations", "demo", "benchmarks")
START = "import sys; sys.path.append(sys.argv.pop(1)); from mutmut.__main__ import cli; cli()"
"""Run mutmut behind the packages of .venv, because it brings other versions of some."""

RESULT = re.compile(r"^\s+(\S+__mutmut_\d+): (.+)$", re.MULTILINE)
NO_MUTANT = "none"
CONFIG = """
[tool.mutmut]
source_paths = {packages}
only_mutate = {code}
also_copy = [
    "docs", "examples", "integrations", "locks", "java", "deploy", "LICENSE", "README.md", "run",
]
pytest_add_cli_args = [
    "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.mutants.quick",
]
timeout_multiplier = 4
timeout_constant = 15
pytest_add_cli_args_test_selection = {tests}
"""


class Mutants:
    """The mutants of a room, in a copy of the repository."""

    def __init__(self, name: str, room: Room) -> None:
        self.home = ROOT / "build" / "mutants" / name
        self._room = room

    def copy(self) -> None:
        """Copy what git knows of; keep the results of unchanged code.

        The list of tests that call each function is made again, because tests may have changed.
        """
        (self.home / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
        files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
        for file in files:
            source = ROOT / file
            target = self.home / file
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        config = CONFIG.format(
            packages=[*SOURCES], code=[*self._room.code], tests=[*self._room.tests]
        )
        with (self.home / "pyproject.toml").open("a") as project:
            project.write(config)

    def names(self) -> list[str]:
        """Return the names of all mutants, after making them."""
        self._call("run", NO_MUTANT)  # mutmut has no command that only makes them
        return sorted(self.results())

    def run(self, names: Sequence[str]) -> None:
        """Try these mutants, or without names all that were not tried yet."""
        if self._call("run", *names):
            sys.exit(f"mutants: mutmut failed, see {self.home / 'log'}")

    def results(self) -> dict[str, str]:
        """Return what became of each mutant."""
        output = self._ask("results", "--all", "true")
        return dict(RESULT.findall(output))

    def show(self, name: str) -> str:
        """Return a mutant as a difference."""
        return self._ask("show", name)

    def _ask(self, *words: str) -> str:
        return subprocess.run(
            self._words(*words), cwd=self.home, text=True, capture_output=True, check=False
        ).stdout

    def _call(self, *words: str) -> int:
        with (self.home / "log").open("w") as log:
            return subprocess.call(self._words(*words), cwd=self.home, stdout=log, stderr=log)

    def _words(self, *words: str) -> list[str]:
        binaries = Path(os.environ["NOTED_TIME_MUTANTS"])
        (packages,) = binaries.parent.glob("[Ll]ib/**/site-packages")
        return [sys.executable, "-c", START, str(packages), *words]


def count(results: Iterable[str]) -> tuple[int, int]:
    """Return how many mutants were found, of how many that were tried."""
    counts = Counter(results)
    tried_count = counts.total() - counts["not checked"]
    return counts["killed"], tried_count


def describe(mutants: Mutants, names: Sequence[str], aim: float, *, is_full: bool) -> bool:
    """Print the mutants that were not found; returns whether more were found than the aim."""
    results = mutants.results()
    chosen_results = {mutant: results[mutant] for mutant in names or results}
    found_count, tried_count = count(chosen_results.values())
    say(
        f"{mutants.home.name}: {found_count} of {tried_count} found "
        f"({found_count / max(tried_count, 1):.1%})"
    )
    for mutant, result in sorted(chosen_results.items()):
        if result not in {"killed", "not checked"}:
            say(f"  {result}: {mutant}")
            if is_full:
                say(mutants.show(mutant))
    return found_count >= aim * tried_count


def main(arguments: list[str]) -> int:
    """Try the mutants of each room; returns the exit status."""
    parser = argparse.ArgumentParser("./run mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"one of {', '.join(ROOMS)}")
    parser.add_argument("--module", action="append", default=[], metavar="FILE")
    parser.add_argument("--sample", type=int, metavar="N", help="the number of mutants to try")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--full", action="store_true", help="show the difference of each survivor")
    options = parser.parse_args(arguments)
    if unknown := set(options.rooms) - ROOMS.keys():
        parser.error(f"there is no room {', '.join(sorted(unknown))}; choose of {', '.join(ROOMS)}")
    are_found = True
    for name in options.rooms or ROOMS:
        mutants = Mutants(name, ROOMS[name])
        mutants.copy()
        names: list[str] = []
        if options.sample or options.module:
            modules = tuple(
                module.removesuffix(".py").replace("/", ".") for module in options.module
            )
            names = [mutant for mutant in mutants.names() if mutant.startswith(modules or "")]
            if options.sample:
                names = Random(options.seed).sample(names, min(options.sample, len(names)))
        say(f"{name}: trying {len(names) or 'all'} mutants, with progress in {mutants.home}/log")
        mutants.run(names)
        are_found &= describe(mutants, names, ROOMS[name].aim, is_full=options.full)
    return 0 if are_found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
