"""Figures: our samples, samples of a floor, and a target."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


NOISE = 0.2
"""The largest spread of samples, as a part of their median."""

FAR_FROM_ZERO = 1000


class WrongResult(Exception):
    """The measured code did not work, so its speed means nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """How much to measure, where to put files, and how to report progress."""

    quick: bool
    directory: Path
    say: Callable[[str], None]

    def repeats(self, full: int, quick: int) -> int:
        """Return how many samples to take."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Samples:
    """Repeated measurements of one thing, in order.

    >>> Samples((3.0, 1.0, 2.0)).median, Samples((3.0, 1.0, 2.0)).spread
    (2.0, (1.0, 3.0))
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.values), max(self.values)


@dataclass(frozen=True, slots=True)
class Target:
    """A least or greatest value of the ratio or the value.

    >>> Target("ratio", "at least", 0.33).met_by(0.4), Target("value", "at most", 50).met_by(51)
    (True, False)
    """

    of: Literal["ratio", "value"]
    side: Literal["at least", "at most"]
    bound: float

    def met_by(self, value: float) -> bool:
        """Whether `value` meets the bound."""
        return value >= self.bound if self.side == "at least" else value <= self.bound

    def __str__(self) -> str:
        sign = "≥" if self.side == "at least" else "≤"
        return f"{self.of if self.of == 'ratio' else ''} {sign} {self.bound:g}".strip()


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing, with its floor's samples taken in turn.

    >>> Figure("rate", "/s", Samples((3.0, 1.0, 2.0))).verdict
    'noisy'
    """

    name: str
    unit: str
    ours: Samples
    floor: Samples | None = None
    floor_is: str = ""
    target: Target | None = None
    remark: str = ""

    @property
    def ratio(self) -> Samples | None:
        """Our samples over the floor's, `None` without a floor."""
        if self.floor is None:
            return None
        pairs = zip(self.ours.values, self.floor.values, strict=True)
        return Samples(tuple(ours / floor for ours, floor in pairs))

    @property
    def judged(self) -> Samples:
        """The samples that the target is about; the ratio, if it has no target."""
        is_of_ratio = self.target is None or self.target.of == "ratio"
        if is_of_ratio and self.ratio is not None:
            return self.ratio
        return self.ours

    @property
    def is_short(self) -> bool:
        return self.target is not None and not self.target.met_by(self.judged.median)

    @property
    def is_noisy(self) -> bool:
        """Whether the samples differ too much to judge the figure."""
        low, high = self.judged.spread
        return high - low > NOISE * abs(self.judged.median)

    @property
    def verdict(self) -> str:
        if self.target is None or self.is_noisy:
            return "noisy" if self.is_noisy else ""
        return "short" if self.is_short else "ok"


WIDTH = 80
NAME = 49
MEASURED = 16
RATIO = 6
VERDICT = 5
"""Width of each column: with the blanks between, a line is as wide as a terminal."""


def lines(figures: Iterable[Figure]) -> Iterator[str]:
    """Yield a line of medians for each figure, and the details below it."""
    yield _line("median of", "measured", "ratio", "")
    for figure in figures:
        name = figure.name
        if len(name) > NAME:
            yield name
            name = ""
        ratio = digits(figure.ratio.median) if figure.ratio else ""
        yield _line(name, f"{digits(figure.ours.median)} {figure.unit}", ratio, figure.verdict)
        yield from wrap(_describe(figure), WIDTH, initial_indent="    ", subsequent_indent="    ")


def as_json(figures: Iterable[Figure]) -> list[dict[str, Any]]:
    """Return the figures with all samples for JSON."""
    return [_figure_as_json(figure) for figure in figures]


def _figure_as_json(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "unit": figure.unit,
        "median": figure.ours.median,
        "samples": list(figure.ours.values),
        "floor_is": figure.floor_is,
        "floor_median": figure.floor.median if figure.floor else None,
        "floor_samples": list(figure.floor.values) if figure.floor else [],
        "ratio": figure.ratio.median if figure.ratio else None,
        "target": str(figure.target) if figure.target else None,
        "verdict": figure.verdict,
        "remark": figure.remark,
    }


def _line(name: str, value_text: str, ratio: str, verdict: str) -> str:
    line = f"{name:<{NAME}} {value_text:>{MEASURED}} {ratio:>{RATIO}} {verdict:>{VERDICT}}"
    return line.rstrip()


def _describe(figure: Figure) -> str:
    parts = []
    if figure.floor is not None:
        parts.append(f"floor {digits(figure.floor.median)} {figure.unit}: {figure.floor_is}")
    if figure.target is not None:
        parts.append(f"target {figure.target}")
    low, high = figure.ours.spread
    if low != high:
        parts.append(f"{digits(low)} to {digits(high)} {figure.unit}")
    if figure.remark:
        parts.append(figure.remark)
    return "; ".join(parts)


def digits(value: float) -> str:
    """Return a value with three digits, or whole from 1000 on."""
    return f"{value:,.0f}" if abs(value) >= FAR_FROM_ZERO else f"{value:.3g}"
