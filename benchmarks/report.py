"""How figures are shown: a table for people, JSON for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.figures import Figure, Samples

COLUMNS = ("figure", "measured", "floor", "ratio", "target", "")
FAR_FROM_ZERO = 1000


def table(figures: Iterable[Figure]) -> Table:
    """Return a table of medians, each with its least and greatest sample."""
    shown = Table(title="noted-time, median (least to greatest)", title_justify="left")
    for column in COLUMNS:
        shown.add_column(column, overflow="fold")
    for figure in figures:
        shown.add_row(*_row(figure), end_section=True)
    return shown


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


def _row(figure: Figure) -> tuple[str, ...]:
    name = f"{figure.name}\n[dim]{figure.remark}[/dim]" if figure.remark else figure.name
    floor = ""
    if figure.floor is not None:
        floor = f"{_number(figure.floor, figure.unit)}\n[dim]{figure.floor_is}[/dim]"
    verdict = "[red]short[/red]" if figure.is_short else "[green]ok[/green]"
    return (
        name,
        _number(figure.ours, figure.unit),
        floor,
        _number(figure.ratio, "") if figure.ratio else "",
        str(figure.target or ""),
        verdict if figure.target else "",
    )


def _number(samples: Samples, unit: str) -> str:
    low, high = samples.spread
    spread = f" ({_digits(low)} to {_digits(high)})" if low != high else ""
    return f"{_digits(samples.median)} {unit}".rstrip() + spread


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= FAR_FROM_ZERO else f"{value:.3g}"
