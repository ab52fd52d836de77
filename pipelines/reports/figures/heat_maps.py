"""Heat map of two numeric fields: the mean over splits in each cell, its standard deviation beneath."""

import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from pipelines.reports.figures.parts import axis_title, percents
from pipelines.reports.figures.style import SELECTED
from pipelines.reports.spaces import Space, lead_of
from pipelines.reports.sweep_table import Point, controls_of, number

SPREAD = "±: standard deviation"
CAPTION = "Framed: selected on development data."
PAPER = "Dashed: best in the paper."
WRITTEN = 8  # characters of a title that fit beside a row
EDGE = [withStroke(linewidth=3, foreground="black")]  # a white line is seen on every colour


def size(space: Space) -> tuple[float, float]:
    """Width and height of a panel, inches."""
    down, across = (len({point.params[name] for point in space.points}) for name in space.varied)
    return 1.5 + 0.72 * across, 0.9 + 0.55 * down + 0.13 * len(controls_of(space.table))


def panel(axes: Axes, space: Space, metric: str) -> None:
    """First field downwards, second to the right, as in the table; the selected point is framed, the paper's dashed."""
    down, across = space.varied
    ys, xs = (sorted({point.params[name] for point in space.points}) for name in (down, across))
    values = np.full((len(ys), len(xs)), np.nan)
    cells = {(ys.index(point.params[down]), xs.index(point.params[across])): point for point in space.points}
    for cell, point in cells.items():
        values[cell] = percents(point, metric)[0]
    axes.imshow(values, cmap="viridis", origin="upper", aspect="auto")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2 if np.isfinite(values).any() else 0.0
    lead, _ = lead_of(space, metric) or (None, "")
    for (y, x), point in cells.items():
        _write(axes, x, y, point, metric, len(space.table.splits), dark=values[y, x] < middle)
        if point is space.selected:
            axes.add_patch(Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, fill=False, lw=3, ec=SELECTED))
        if point is lead:
            axes.add_patch(
                Rectangle((x - 0.4, y - 0.4), 0.8, 0.8, fill=False, lw=1.5, ls="--", ec="white", path_effects=EDGE)
            )
    axes.set_xticks(range(len(xs)), [number(value) for value in xs])
    axes.set_yticks(range(len(ys)), [number(value) for value in ys])
    below = axes.set_xlabel(axis_title(across), fontsize=8)
    beside = [f"{percents(control, metric)[0]:.1f}  {control.label}" for control in controls_of(space.table)]
    axes.annotate("\n".join(beside), (0, 0), (0, -5), below, "offset points", va="top", fontsize=8)
    axes.set_ylabel(textwrap.fill(axis_title(down), WRITTEN * len(ys)), fontsize=8)


def _write(axes: Axes, x: int, y: int, point: Point, metric: str, num_splits: int, dark: bool) -> None:
    """The mean; beneath it the standard deviation, and of how many splits where some are lacking."""
    middle, spread = percents(point, metric)
    colour = "white" if dark else "black"
    count = len(point.values(metric))
    beneath = [f"± {spread:.1f}"] if count > 1 else []
    beneath += [f"{count} of {num_splits}"] if 0 < count < num_splits else []
    text = f"{middle:.1f}" if count else point.status
    axes.text(x, y, text, ha="center", va="bottom" if beneath else "center", color=colour, fontsize=9)
    axes.text(x, y + 0.06, "\n".join(beneath), ha="center", va="top", color=colour, fontsize=6.5)
