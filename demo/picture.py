"""Draws the findings: rows lost against latency, one point per method.

The loss is logarithmic above a tenth of a percent and linear below, to show zero and small losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from demo.measurement import Findings, Outcome, format_delay
from demo.report import sooner_hours

LINEAR_TO = 0.1
LOSSES = (0, 0.1, 1, 10)


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of a picture."""

    paper: str
    ink: str
    grey: str
    rule: str
    own: str
    noted: str


LIGHT_PALETTE = Palette("#ffffff", "#1f2933", "#616e7c", "#e4e7eb", "#c2410c", "#0f766e")
DARK_PALETTE = Palette("#0d1117", "#e6edf3", "#9da7b1", "#2a313c", "#f0883e", "#2dd4bf")


def draw(
    findings: Findings,
    curve: Sequence[Outcome],
    perfect_outcome: Outcome,
    palette: Palette = LIGHT_PALETTE,
) -> Figure:
    """Return the picture, 1600 by 864 pixels; `curve` is Spark's own watermark by delay."""
    noted_outcome, *own_outcomes = findings.shown
    sooner = sooner_hours(findings.shown)
    figure = Figure(figsize=(10, 5.4), dpi=160, facecolor=palette.paper)
    FigureCanvasAgg(figure)
    title = f"Not one flight lost, and results {sooner:.1f} hours sooner"
    if noted_outcome.lost:
        title = f"noted-time lost {noted_outcome.lost:,} flights"
    subtitle = (
        f"{noted_outcome.rows:,} real flights, counted by hour of departure as they land: "
        "with noted-time, and with Spark's defaults at several delays"
    )
    figure.text(0.03, 0.925, title, fontsize=19, weight="bold", color=palette.ink)
    figure.text(0.03, 0.865, subtitle, fontsize=11, color=palette.grey)
    axes = _axes_of(figure, findings.shown, palette)
    _draw_own(axes, curve, own_outcomes, findings.own_source, palette)
    _draw_saving(axes, noted_outcome.median_hours, sooner, palette)
    _draw_perfect(axes, perfect_outcome.median_hours, palette)
    _draw_noted(axes, noted_outcome, palette)
    return figure


def _axes_of(figure: Figure, outcomes: Sequence[Outcome], palette: Palette) -> Axes:
    """Return axes of rows lost over latency, with room for these outcomes."""
    axes = figure.add_axes((0.085, 0.125, 0.885, 0.67), facecolor=palette.paper)
    axes.set_xlim(0, max(outcome.median_hours for outcome in outcomes) * 1.17)
    axes.set_yscale("symlog", linthresh=LINEAR_TO, linscale=0.9)
    axes.set_ylim(-LINEAR_TO * 0.45, max(outcome.lost_percent for outcome in outcomes) * 3 + 1)
    axes.set_yticks(LOSSES, [f"{loss:g} %" for loss in LOSSES])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(_format_hours)
    latency = "median time from the end of an hour until its count is final"
    axes.set_xlabel(latency, color=palette.grey)
    axes.set_ylabel("flights lost", color=palette.grey)
    axes.grid(visible=True, color=palette.rule, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=palette.grey, labelsize=10.5)
    axes.spines[:].set_visible(False)
    axes.axhline(0, color=palette.grey, linewidth=1, zorder=1)
    return axes


def _format_hours(hours: float, _position: float) -> str:
    return f"{hours:g} h"


def _draw_own(
    axes: Axes,
    curve: Sequence[Outcome],
    own_outcomes: Sequence[Outcome],
    dots: str,
    palette: Palette,
) -> None:
    """Draw Spark's own watermark: a line, and a dot for each tried delay."""
    hours = [outcome.median_hours for outcome in curve]
    lost_percents = [outcome.lost_percent for outcome in curve]
    axes.plot(hours, lost_percents, color=palette.own, linewidth=2.5, alpha=0.3, zorder=2)
    _name_own(axes, dots, palette)
    for outcome in own_outcomes:
        position = (outcome.median_hours, outcome.lost_percent)
        axes.plot(
            *position,
            "o",
            color=palette.own,
            markersize=10,
            markeredgecolor=palette.paper,
            zorder=3,
        )
        label = f"delay {format_delay(outcome.delay_ms or 0)}\n{outcome.lost:,} lost"
        style: dict[str, Any] = {}
        offset = (7, 9)
        if outcome.median_hours < axes.get_xlim()[1] / 2:
            style = {"ha": "right", "va": "top"}
            offset = (-7, -9)
        _label(
            axes,
            label,
            position,
            offset,
            color=palette.own,
            fontsize=10.5,
            linespacing=1.35,
            **style,
        )


def _name_own(axes: Axes, dots: str, palette: Palette) -> None:
    place: dict[str, Any] = {"transform": axes.transAxes, "color": palette.own}
    axes.text(0.64, 0.7, "withWatermark and a delay", fontsize=14, weight="bold", **place)
    source = "all computed without Spark"
    if dots != "simulated":
        source = "dots: measured; line and last dot: computed"
    text = f"its defaults, a micro-batch a minute\n{source}"
    axes.text(0.64, 0.585, text, fontsize=10.5, linespacing=1.4, **place)


def _draw_noted(axes: Axes, noted_outcome: Outcome, palette: Palette) -> None:
    position = (noted_outcome.median_hours, noted_outcome.lost_percent)
    axes.plot(
        *position, "o", color=palette.noted, markersize=30, alpha=0.18, markeredgewidth=0, zorder=4
    )
    axes.plot(
        *position, "o", color=palette.noted, markersize=17, markeredgecolor=palette.paper, zorder=5
    )
    label = f"noted-time\n{noted_outcome.lost:,} lost, {noted_outcome.median_hours:.1f} h"
    beside: dict[str, Any] = {"ha": "right", "va": "bottom", "linespacing": 1.3}
    _label(
        axes, label, position, (-18, 10), fontsize=14, color=palette.noted, weight="bold", **beside
    )


def _draw_perfect(axes: Axes, hours: float, palette: Palette) -> None:
    axes.axvline(hours, color=palette.grey, linewidth=1.2, linestyle=(0, (2, 3)), zorder=1)
    text = f"perfect watermark\n{hours:.1f} h"
    place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "left", "va": "top"}
    axes.text(
        hours * 1.015, 0.97, text, color=palette.grey, fontsize=10.5, linespacing=1.3, **place
    )


def _draw_saving(axes: Axes, noted_hours: float, sooner: float, palette: Palette) -> None:
    arrow = {
        "arrowstyle": "->",
        "color": palette.noted,
        "linewidth": 1.8,
        "shrinkA": 9,
        "shrinkB": 13,
    }
    end = (noted_hours, 0)
    begin = (noted_hours + sooner, 0)
    axes.annotate("", end, xytext=begin, arrowprops=arrow, zorder=4)
    middle = (noted_hours + sooner / 2, 0)
    label = f"{sooner:.1f} hours sooner"
    _label(
        axes, label, middle, (0, 6), color=palette.noted, fontsize=11, weight="bold", ha="center"
    )


def _label(
    axes: Axes,
    text: str,
    position: tuple[float, float],
    offset: tuple[int, int],
    **style: Any,  # noqa: ANN401
) -> None:
    axes.annotate(text, position, xytext=offset, textcoords="offset points", **style)
