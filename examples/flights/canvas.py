"""What all pictures of the examples share: colours, a head with two lines, axes without a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, GREY, RULE = "#1f2933", "#616e7c", "#e4e7eb"
OWN, NOTED = "#c2410c", "#0f766e"


def headed(title: str, subtitle: str) -> Figure:
    """Return a figure, 1600 by 864 pixels: on top the finding, and below it what was done."""
    figure = Figure(figsize=(10, 5.4), dpi=160, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.03, 0.925, title, fontsize=19, weight="bold", color=INK)
    figure.text(0.03, 0.865, subtitle, fontsize=11, color=GREY)
    return figure


def plain(axes: Axes) -> None:
    """Leave a light grid of the axes, and grey labels."""
    axes.grid(visible=True, color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=GREY, labelsize=10.5)
    axes.spines[:].set_visible(False)
