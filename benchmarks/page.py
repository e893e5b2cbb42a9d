"""Writes the table of docs/explain/speed.md from the figures of one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PAGE = Path(__file__).parent.parent / "docs" / "explain" / "speed.md"
FIGURES = PAGE.with_suffix(".json")
BEGIN = "<!-- `./run bench --page` writes this table. -->"
END = "<!-- Its end. -->"


def table(figures: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table of the figures that have an aim, without the aims."""
    yield "| what | measured | floor | ratio |"
    yield "|---|--:|--:|--:|"
    for figure in figures:
        if not figure["target"]:
            continue
        samples = figure["samples"]
        unit = figure["unit"]
        value_text = f"{digits(figure['median'])} {unit}"
        if len(samples) > 1:
            value_text += f" ({digits(min(samples))} to {digits(max(samples))})"
        floor = (
            figure["floor_is"] and f"{digits(figure['floor_median'])} {unit}: {figure['floor_is']}"
        )
        ratio = "" if figure["ratio"] is None else f"**{digits(figure['ratio'])}**"
        label = figure["name"]
        if figure["remark"]:
            label += f"; {figure['remark']}"
        cells = (label, value_text, floor, ratio)
        yield f"|{'|'.join(pad_cell(cell) for cell in cells)}|"


def pad_cell(cell: str) -> str:
    return f" {cell} " if cell else " "


def fill_page(page: str, figures: Iterable[Mapping[str, Any]]) -> str:
    """Return the page with the table of these figures, or raise `ValueError`."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    lines = "\n".join(table(figures))
    return f"{before}{BEGIN}\n\n{lines}\n\n{END}{after}"


def write(figures: list[dict[str, Any]]) -> None:
    """Store the figures of a run, and write its table."""
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")  # first, as a run takes ten minutes
    PAGE.write_text(fill_page(PAGE.read_text(), figures))
