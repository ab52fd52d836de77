"""A metric against openness: points of a space and the controls, with standard deviation over splits."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.reports.figures.parts import caption, legend_beside
from pipelines.reports.figures.style import CONTROL_STYLES, LINES, MARKERS, OTHER_CONTROL, SELECTED
from pipelines.reports.spaces import Space, lead_of
from pipelines.reports.sweep_table import Point, controls_of, difference, mean, std
from proser_core import titles
from proser_core.data.splits.class_split import where

BASE = titles.MSP
"""The paper's plain CNN."""
MOST = len(LINES)  # curves of points that can be told apart
APART = 0.45  # shift between the error bars of neighbouring curves, in points of openness


def against_openness(space: Space, metric: str) -> Figure:
    """Left as the paper draws it; right each curve's difference to MSP, the paper's plain CNN, paired by split."""
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    table, controls = space.table, controls_of(space.table)
    base = next((control for control in controls if control.label == BASE), None)
    points = chosen_points(space)
    openness = {n: found for n in table.settings if (found := table.split.openness(n)) is not None}
    apart = APART if len(table.splits) > 1 else 0.0
    for position, line in enumerate([*points, *controls]):
        style = _style(space, position, line)
        shift = apart * (position - (len(points) + len(controls) - 1) / 2)
        metrics = {each: f"{where(n)}/{metric}" for n, each in openness.items()}
        _draw(left, {each: list(line.values(name).values()) for each, name in metrics.items()}, style, shift)
        if base is not None and line is not base:
            _draw(right, {each: difference(line, base, name) for each, name in metrics.items()}, style, shift)
    left.set(ylabel=f"{titles.METRICS[metric]} on test images, %")
    right.set(ylabel=f"{titles.METRICS[metric]} minus that of {BASE}, points")
    right.axhline(0, color="black", lw=1, zorder=1)
    for axes in (left, right):
        axes.set(xlabel="openness, %")
        axes.grid(alpha=0.3)
    legend_beside(figure)
    bars = "bars: standard deviation; to the right paired by split; curves shifted sideways"
    some = "" if len(points) == len(space.points) else f"{len(points)} of {len(space.points)} points are drawn."
    caption(figure, space, points, bars, some)
    return figure


def chosen_points(space: Space) -> list[Point]:
    """Named points, or all where they are few; else the selected one, the recipe's own, and the paper's best."""
    if space.info.points or len(space.points) <= MOST:
        return [point for point in space.points if point.num_finished]
    leads = [found[0] for n in space.table.settings if (found := lead_of(space, f"{where(n)}/macro_f1"))]
    chosen = [space.selected, space.own, *leads]
    return list({point.label: point for point in chosen if point and point.num_finished}.values())


def _style(space: Space, position: int, line: Point) -> dict[str, Any]:
    if not line.params:  # a control
        return {"label": line.label, **CONTROL_STYLES.get(line.label, OTHER_CONTROL), "lw": 1.4}
    style = {"color": LINES[position % len(LINES)], "marker": MARKERS[position % len(MARKERS)], "ms": 5, "lw": 1.6}
    marks = ["selected"] * (line is space.selected) + ["recipe's own"] * (line is space.own)
    label = f"{line.label} ({', '.join(marks)})" if marks else line.label
    edge = {"lw": 2.6, "mec": SELECTED, "mew": 1.5} if line is space.selected else {}
    return {**style, **edge, "label": label}


def _draw(axes: Axes, values: dict[float, list[float]], style: dict[str, Any], shift: float) -> None:
    """Mean and standard deviation at each openness that has a value."""
    measured = {openness: found for openness, found in values.items() if found}
    xs = [100 * openness + shift for openness in measured]
    means = [100 * mean(found) for found in measured.values()]
    bars = np.nan_to_num([100 * std(found) for found in measured.values()])
    axes.errorbar(xs, means, bars if bars.any() else None, elinewidth=0.9, capsize=2, **style)
