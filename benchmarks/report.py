"""How figures are shown: lines for people, JSON for machines."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.figures import Figure

FAR_FROM_ZERO = 1000
WIDTH = 80
NAME, MEASURED, RATIO, VERDICT = 49, 16, 6, 5
"""How wide each column is: with the blanks between, a line is as wide as a terminal."""


def lines(figures: Iterable[Figure]) -> Iterator[str]:
    """Yield a line of medians for each figure, and below it, indented, what they are of."""
    yield _line("median of", "measured", "ratio", "")
    for figure in figures:
        name = figure.name
        if len(name) > NAME:
            yield name
            name = ""
        ratio = _digits(figure.ratio.median) if figure.ratio else ""
        verdict = ("short" if figure.is_short else "ok") if figure.target else ""
        yield _line(name, f"{_digits(figure.ours.median)} {figure.unit}", ratio, verdict)
        yield from wrap(_below(figure), WIDTH, initial_indent="    ", subsequent_indent="    ")


def as_json(figures: Iterable[Figure]) -> list[dict[str, Any]]:
    """Return the figures with all their samples, ready to be written as JSON."""
    return [
        {
            "name": figure.name,
            "unit": figure.unit,
            "median": figure.ours.median,
            "samples": list(figure.ours.values),
            "floor_is": figure.floor_is,
            "floor_median": figure.floor.median if figure.floor else None,
            "floor_samples": list(figure.floor.values) if figure.floor else [],
            "ratio": figure.ratio.median if figure.ratio else None,
            "target": str(figure.target) if figure.target else None,
            "ok": not figure.is_short,
            "remark": figure.remark,
        }
        for figure in figures
    ]


def _line(name: str, measured: str, ratio: str, verdict: str) -> str:
    line = f"{name:<{NAME}} {measured:>{MEASURED}} {ratio:>{RATIO}} {verdict:>{VERDICT}}"
    return line.rstrip()


def _below(figure: Figure) -> str:
    """Return the floor, the target, how far the samples lie apart, and the remark."""
    parts = []
    if figure.floor is not None:
        parts.append(f"floor {_digits(figure.floor.median)} {figure.unit}: {figure.floor_is}")
    if figure.target is not None:
        parts.append(f"target {figure.target}")
    low, high = figure.ours.spread
    if low != high:
        parts.append(f"{_digits(low)} to {_digits(high)} {figure.unit}")
    return "; ".join([*parts, *filter(None, [figure.remark])])


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= FAR_FROM_ZERO else f"{value:.3g}"
