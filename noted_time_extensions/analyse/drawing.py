"""The chart of `noted-time analyse`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from noted_time.extending import DAY_MS, HOUR_MS, pluralize
from noted_time_extensions.analyse.costs import (
    Costs,
    format_delay,
    format_least_delay,
    format_window,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from noted_time_extensions.analyse.curves import Analysis, Curve

TEXT_COLOUR = "#1f2933"
AXIS_COLOUR = "#616e7c"
GRID_COLOUR = "#e4e7eb"
CURVE_COLOUR = "#c2410c"
PERFECT_COLOUR = "#0f766e"
CURVE_POINTS = 200
LINEAR_TO = 0.001
TIME_UNITS = (("d", DAY_MS), ("h", HOUR_MS), ("min", 60_000), ("s", 1000))


def draw(costs: Costs, analysis: Analysis) -> Figure:
    figure = Figure(figsize=(10, 5.4), dpi=160, facecolor="white")
    FigureCanvasAgg(figure)
    least_delay_ms = costs.least_delay_without_loss_ms
    title = "No row is late"
    if least_delay_ms:
        title = f"Every delay below {format_least_delay(least_delay_ms)} loses rows"
    figure.text(0.03, 0.925, title, fontsize=19, weight="bold", color=TEXT_COLOUR)
    subtitle = (
        f"{pluralize(costs.rows, 'row')} by {costs.event_time}, {format_window(costs.window_ms)}: "
        "Spark's watermark at every delay, judged row by row"
    )
    figure.text(0.03, 0.865, subtitle, fontsize=11, color=AXIS_COLOUR)
    axes = figure.add_axes((0.1, 0.125, 0.87, 0.67))
    delays = np.unique(np.linspace(0, max(least_delay_ms, 1), CURVE_POINTS).astype(np.int64))
    lost_percents = [100 * analysis.spark.count_lost(int(delay)) / costs.rows for delay in delays]
    across = [_find_wait(analysis.spark, int(delay), costs) for delay in delays]
    unit, size = _find_unit(max(across))
    axes.plot(
        [ms / size for ms in across], lost_percents, color=CURVE_COLOUR, linewidth=2.5, zorder=2
    )
    for figures in costs.delays:
        x = _find_wait(analysis.spark, figures.delay_ms or 0, costs) / size
        axes.plot(
            x, figures.lost_percent, "o", color=CURVE_COLOUR, markersize=9, markeredgecolor="white"
        )
        label = f"{format_delay(figures.delay_ms or 0)}\n{figures.lost:,} lost"
        axes.annotate(
            label,
            (x, figures.lost_percent),
            (7, 7),
            textcoords="offset points",
            color=CURVE_COLOUR,
            fontsize=9,
        )
    if costs.perfect is not None and costs.perfect.wait_median_ms is not None:
        x = costs.perfect.wait_median_ms / size
        axes.plot(x, 0, "o", color=PERFECT_COLOUR, markersize=15, markeredgecolor="white", zorder=5)
        axes.annotate(
            "perfect\n0 lost",
            (x, 0),
            (-10, 10),
            textcoords="offset points",
            color=PERFECT_COLOUR,
            fontsize=12,
            weight="bold",
            ha="right",
        )
    axes.set_xlim(0, 1.2 * max(across) / size or 1)
    _style(axes, max(lost_percents), costs, unit)
    return figure


def _find_unit(longest_ms: float) -> tuple[str, int]:
    """Return the largest unit, and its ms, that a time has at least twice, else seconds."""
    for unit, size in TIME_UNITS:
        if longest_ms >= 2 * size:
            return unit, size
    return TIME_UNITS[-1]


def _find_wait(curve: Curve, delay: int, costs: Costs) -> float:
    """Return the median wait, or the delay if waits are not known."""
    if costs.assumed:
        return delay
    return curve.measure_waits(delay).median_ms or 0.0


def _style(axes: Axes, largest_percent: float, costs: Costs, unit: str) -> None:
    axes.set_yscale("symlog", linthresh=LINEAR_TO, linscale=0.5)
    axes.set_ylim(-LINEAR_TO * 0.4, max(largest_percent * 3, LINEAR_TO * 10))
    ticks = [
        0,
        *(10.0**exponent for exponent in range(-3, 3) if 10.0**exponent <= largest_percent * 3),
    ]
    axes.set_yticks(ticks, [f"{loss:g} %" for loss in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} {unit}")
    across = "delay" if costs.assumed else "median time from the end of a window to its result"
    axes.set_xlabel(across, color=AXIS_COLOUR)
    axes.set_ylabel("rows lost", color=AXIS_COLOUR)
    axes.grid(visible=True, color=GRID_COLOUR, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=AXIS_COLOUR, labelsize=10.5)
    axes.spines[:].set_visible(False)
    axes.axhline(0, color=AXIS_COLOUR, linewidth=1, zorder=1)
