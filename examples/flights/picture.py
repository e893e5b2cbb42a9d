"""The findings as a picture: rows lost against latency, one point per method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from examples.flights.report import least_without_loss

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from examples.flights.outcome import Outcome

INK, PALE, OWN, NOTED = "#1f2933", "#9aa5b1", "#c2410c", "#0f766e"


def draw(measured: Sequence[Outcome], curve: Sequence[Outcome], path: Path) -> None:
    """Write the picture as a PNG; `measured` has noted time first, `curve` rising delays."""
    noted, *own = measured
    figure = Figure(figsize=(9, 5), dpi=160, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.085, 0.125, 0.885, 0.68))
    _draw_axes(axes, measured)
    _draw_curve(axes, curve)
    for outcome in own:
        _draw_own(axes, outcome)
    _draw_noted(axes, noted)
    _draw_saving(axes, noted, least_without_loss(tuple(measured)))
    figure.text(0.03, 0.935, title(tuple(measured)), fontsize=16, weight="bold", color=INK)
    figure.text(0.03, 0.878, _subtitle(noted), fontsize=10.5, color="#52606d")
    figure.savefig(path)


def title(measured: tuple[Outcome, ...]) -> str:
    """Return the finding in a line."""
    noted, without_loss = measured[0], least_without_loss(measured)
    if noted.lost:
        return f"Noted time lost {noted.lost:,} rows"
    if without_loss is None:
        return "Noted time loses no row, whatever the disorder"
    sooner = without_loss.median_hours - noted.median_hours
    return f"No row lost, and results {sooner:.0f} hours sooner than by any delay that loses none"


def _subtitle(noted: Outcome) -> str:
    return (
        f"{noted.rows:,} real flights, counted per hour of departure as they land. Latency in "
        "replay time, median over the hours."
    )


def _draw_axes(axes: Axes, measured: Sequence[Outcome]) -> None:
    most = max(outcome.lost_percent for outcome in measured)
    axes.set_xlim(0, max(outcome.median_hours for outcome in measured) * 1.09)
    axes.set_ylim(-0.055 * most, 1.12 * most)
    axes.set_xlabel("hours from the end of a window to its result", color=INK, fontsize=10.5)
    axes.set_ylabel("rows lost", color=INK, fontsize=10.5)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} h")
    axes.axhline(0, color=PALE, linewidth=0.8, zorder=1)
    axes.grid(visible=True, color="#eef1f4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors="#52606d")
    for side in axes.spines.values():
        side.set_visible(False)


def _draw_curve(axes: Axes, curve: Sequence[Outcome]) -> None:
    hours = [outcome.median_hours for outcome in curve]
    lost = [outcome.lost_percent for outcome in curve]
    axes.plot(hours, lost, color=OWN, linewidth=2, alpha=0.35, zorder=2)


def _draw_own(axes: Axes, outcome: Outcome) -> None:
    at = (outcome.median_hours, outcome.lost_percent)
    axes.plot(*at, "o", color=OWN, markersize=9, zorder=3)
    hours = (outcome.delay_ms or 0) // 3_600_000
    label = f"delay {hours} h\n{outcome.lost:,} rows lost"
    axes.annotate(label, at, xytext=(8, 8), textcoords="offset points", color=OWN, fontsize=9.5)


def _draw_noted(axes: Axes, noted: Outcome) -> None:
    at = (noted.median_hours, noted.lost_percent)
    axes.plot(*at, "o", color=NOTED, markersize=17, zorder=4)


def _draw_saving(axes: Axes, noted: Outcome, without_loss: Outcome | None) -> None:
    del axes, noted, without_loss
