"""The findings as a picture: rows lost against latency, one point per method.

The scale of the loss is logarithmic above a tenth of a percent and linear below, so that zero has a
place and a few lost rows are seen not to be none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from demo.data import HOUR_MS
from demo.report import sooner_hours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from demo.findings import Findings
    from demo.measurement import Outcome


INK, GREY, RULE = "#1f2933", "#616e7c", "#e4e7eb"
OWN, NOTED = "#c2410c", "#0f766e"


def headed(title: str, subtitle: str) -> Figure:
    """Return a figure, 1600 by 864 pixels, headed by the finding and what was done."""
    figure = Figure(figsize=(10, 5.4), dpi=160, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.03, 0.925, title, fontsize=19, weight="bold", color=INK)
    figure.text(0.03, 0.865, subtitle, fontsize=11, color=GREY)
    return figure


LINEAR_TO = 0.1
LOSSES = (0, 0.1, 1, 10)


def draw(findings: Findings, curve: Sequence[Outcome], perfect_ms: float | None) -> Figure:
    """Return the picture; `curve` is Spark's own watermark at rising delays, simulated.

    `perfect_ms` is the median wait under the perfect watermark, where a window was closed.
    """
    noted, *own = findings.shown
    figure = headed(title(findings.shown), subtitle(noted))
    figure.text(0.03, 0.825, findings.ways, fontsize=11, color=NOTED)
    axes = axes_of(figure, findings.shown)
    dots = "measured" if findings.own_was_run else "simulated, too"
    draw_curve(
        axes, curve, ("Spark's own watermark", f"line simulated, dots {dots}"), OWN, (0.68, 0.7)
    )
    for outcome in own:
        draw_dot(axes, outcome, OWN)
    _draw_saving(axes, noted.median_hours, sooner_hours(findings.shown))
    if perfect_ms is not None:
        _draw_perfect(axes, perfect_ms / HOUR_MS)
    _draw_noted(axes, noted)
    return figure


def title(outcomes: Sequence[Outcome]) -> str:
    """Return the finding in a line."""
    sooner = sooner_hours(outcomes)
    if outcomes[0].lost:
        return f"Noted time lost {outcomes[0].lost:,} flights"
    if sooner is None:
        return "Noted time loses no flight; every delay tried does"
    return f"Not one flight lost, and results {sooner:.1f} hours sooner"


def subtitle(noted: Outcome) -> str:
    """Return what was done."""
    return (
        f"{noted.rows:,} real flights, counted by hour of departure as they land: "
        "noted time against Spark's own watermark at several delays"
    )


def axes_of(figure: Figure, outcomes: Sequence[Outcome]) -> Axes:
    """Return axes of rows lost over latency, in which these outcomes have room."""
    axes = figure.add_axes((0.085, 0.125, 0.885, 0.67))
    axes.set_xlim(0, max(outcome.median_hours for outcome in outcomes) * 1.13)
    axes.set_yscale("symlog", linthresh=LINEAR_TO, linscale=0.9)
    axes.set_ylim(-LINEAR_TO * 0.45, max(outcome.lost_percent for outcome in outcomes) * 3 + 1)
    axes.set_yticks(LOSSES, [f"{loss:g} %" for loss in LOSSES])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} h")
    axes.set_xlabel(
        "median time from the end of a window to its result, in replay time", color=GREY
    )
    axes.set_ylabel("flights lost", color=GREY)
    axes.grid(visible=True, color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=GREY, labelsize=10.5)
    axes.spines[:].set_visible(False)
    axes.axhline(0, color=GREY, linewidth=1, zorder=1)
    return axes


def draw_curve(
    axes: Axes,
    curve: Sequence[Outcome],
    words: tuple[str, str],
    colour: str,
    at: tuple[float, float],
) -> None:
    """Draw outcomes at rising delays as a line, with two lines of words at this place."""
    hours = [outcome.median_hours for outcome in curve]
    lost = [outcome.lost_percent for outcome in curve]
    axes.plot(hours, lost, color=colour, linewidth=2.5, alpha=0.3, zorder=2)
    place: dict[str, Any] = {"transform": axes.transAxes, "color": colour}
    axes.text(*at, words[0], fontsize=14, weight="bold", **place)
    axes.text(at[0], at[1] - 0.065, words[1], fontsize=10.5, **place)


def draw_dot(axes: Axes, outcome: Outcome, colour: str) -> None:
    """Draw an outcome with its delay."""
    at = (outcome.median_hours, outcome.lost_percent)
    axes.plot(*at, "o", color=colour, markersize=10, markeredgecolor="white", zorder=3)
    hours = (outcome.delay_ms or 0) / HOUR_MS
    label = f"delay {hours:g} h\n{outcome.lost:,} lost"
    _label(axes, label, at, (7, 9), color=colour, fontsize=10.5, linespacing=1.35)


def _draw_noted(axes: Axes, noted: Outcome) -> None:
    at = (noted.median_hours, noted.lost_percent)
    axes.plot(*at, "o", color=NOTED, markersize=30, alpha=0.18, markeredgewidth=0, zorder=4)
    axes.plot(*at, "o", color=NOTED, markersize=17, markeredgecolor="white", zorder=5)
    label = f"noted time\n{noted.lost:,} lost, {noted.median_hours:.1f} h"
    beside: dict[str, Any] = {"ha": "right", "va": "bottom", "linespacing": 1.3}
    _label(axes, label, at, (-18, 10), fontsize=14, color=NOTED, weight="bold", **beside)


def _draw_perfect(axes: Axes, hours: float) -> None:
    axes.axvline(hours, color=GREY, linewidth=1.2, linestyle=(0, (2, 3)), zorder=1)
    text = f"perfect watermark\n{hours:.1f} h"
    place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "left", "va": "top"}
    axes.text(hours * 1.015, 0.97, text, color=GREY, fontsize=10.5, linespacing=1.3, **place)


def _draw_saving(axes: Axes, noted_hours: float, sooner: float | None) -> None:
    if sooner is None:
        return
    arrow = {"arrowstyle": "->", "color": NOTED, "linewidth": 1.8, "shrinkA": 9, "shrinkB": 13}
    ends = (noted_hours, 0), (noted_hours + sooner, 0)
    axes.annotate("", ends[0], xytext=ends[1], arrowprops=arrow, zorder=4)
    middle, label = (noted_hours + sooner / 2, 0), f"{sooner:.1f} hours sooner"
    _label(axes, label, middle, (0, 6), color=NOTED, fontsize=11, weight="bold", ha="center")


def _label(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    offset: tuple[int, int],
    **style: Any,  # noqa: ANN401
) -> None:
    axes.annotate(text, at, xytext=offset, textcoords="offset points", **style)
