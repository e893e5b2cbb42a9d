"""Measures two trees in turn, to separate a change from the machine's noise."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import NAME, Samples, digits

ROOT = Path(__file__).parent.parent

ROUNDS = 5
"""How often each tree is measured: then unchanged code seems changed once in 126 figures."""


class NotMeasured(Exception):
    """A tree cannot be measured."""


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of both trees, a value for each run: the ratio to its floor, if it has one.

    >>> Change("notes", Samples((0.20, 0.21)), Samples((0.15, 0.19))).is_beyond_noise
    True
    """

    name: str
    there: Samples
    here: Samples

    @property
    def is_beyond_noise(self) -> bool:
        """Whether every run of one tree is above every run of the other."""
        low_there, high_there = self.there.spread
        low_here, high_here = self.here.spread
        return low_here > high_there or low_there > high_here

    def lines(self) -> Iterator[str]:
        """Yield the medians with their change, then the least and greatest values."""
        was = self.there.median
        now = self.here.median
        change = f"{now / was - 1:+.0%}" if was else ""
        yield _line(self.name, digits(was), digits(now), change)
        ending = "; beyond the noise" if self.is_beyond_noise else ""
        yield f"    {_format_spread(self.there)}, {_format_spread(self.here)}{ending}"


@contextmanager
def tree_at(commit: str, build: Path) -> Iterator[Path]:
    """Unpack the tree of a commit during the block, or raise `NotMeasured`."""
    words = ["git", "-C", str(ROOT), "archive", commit]
    process = subprocess.run(words, capture_output=True, check=False)  # noqa: S603 - git
    if process.returncode:
        raise NotMeasured(f"git knows no commit {commit!r} here: {process.stderr.decode().strip()}")
    with tempfile.TemporaryDirectory(prefix="against-", dir=build) as directory:
        with tarfile.open(fileobj=io.BytesIO(process.stdout)) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not before 3.11.4
            archive.extractall(directory)  # noqa: S202 - git made it
        yield Path(directory)


def compare(
    names: Sequence[str],
    commit: str,
    build: Path,
    say: Callable[[str], None],
    options: Sequence[str],
) -> list[Change]:
    """Measure benchmarks in both trees, in turn; raises `NotMeasured` if none can be measured.

    Both run with the packages installed here.
    """
    values: dict[str, tuple[list[float], list[float]]] = {}
    with tree_at(commit, build) as other_tree:
        for name in names:
            try:
                for turn in range(ROUNDS):
                    for side, tree in enumerate((other_tree, ROOT)):
                        say(f"{name}, {turn + 1} of {ROUNDS}: {'here' if side else commit}")
                        for figure, value in _run(name, tree, options).items():
                            values.setdefault(figure, ([], []))[side].append(value)
            except NotMeasured as failure:
                say(str(failure))  # the other benchmarks took minutes each
    if not values:
        raise NotMeasured(f"none of {', '.join(names)} was measured")
    for figure, (was, now) in values.items():
        if not (was and now):
            say(f"only {'here' if now else f'at {commit}'}: {figure}")
    changes = []
    for figure, (was, now) in values.items():
        if was and now:
            changes.append(Change(figure, Samples(tuple(was)), Samples(tuple(now))))
    return changes


def _run(name: str, tree: Path, options: Sequence[str]) -> Mapping[str, float]:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = [sys.executable, "-m", "benchmarks", name, "--json", file.name, *options]
        env = {**os.environ, "PYTHONPATH": str(tree)}  # before installed packages
        ran = subprocess.run(  # noqa: S603 - our own program
            words, cwd=tree, env=env, capture_output=True, text=True, check=False
        )
        if ran.returncode:
            place_name = "here" if tree == ROOT else "there"
            why = ran.stderr.strip().rpartition("\n")[2] or f"status {ran.returncode}"
            raise NotMeasured(f"benchmark {name} fails {place_name}: {why}")
        figures = json.load(file)
    medians = {}
    for figure in figures:
        ratio = figure["ratio"]
        medians[figure["name"]] = figure["median"] if ratio is None else ratio
    return medians


def lines(changes: Iterable[Change], commit: str) -> Iterator[str]:
    """Yield a head and the lines of all figures."""
    yield _line(f"median of {ROUNDS} runs: the ratio, or the value", commit[:9], "here", "change")
    for change in changes:
        yield from change.lines()


def _format_spread(samples: Samples) -> str:
    low, high = samples.spread
    return f"{digits(low)} to {digits(high)}"


def _line(name: str, was: str, now: str, change: str) -> str:
    return f"{name:<{NAME}} {was:>9} {now:>9} {change:>7}".rstrip()
