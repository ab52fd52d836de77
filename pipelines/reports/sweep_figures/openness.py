"""A metric against openness: points of a space and the controls, with standard deviation over splits."""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.reports.figures import LABELS, MARKERS
from pipelines.reports.sweep_figures.parts import (
    CONTROL_STYLES,
    LINES,
    OTHER_CONTROL,
    SELECTED,
    caption,
    legend_beside,
)
from pipelines.reports.sweep_published import lead_of
from pipelines.reports.sweep_table import Point, Space, SweepTable, controls_of, difference, mean, std
from proser_core.data.splits.class_split import Setting, where

BASE = "MSP"  # the paper's plain CNN
NAMES = {BASE: f"plain CNN ({BASE})"}
MOST = len(LINES)  # curves of points that can be told apart
APART = 0.45  # shift between the error bars of neighbouring curves, in points of openness


def against_openness(table: SweepTable, space: Space, metric: str) -> Figure:
    """Left as the paper draws it; right each curve's difference to the plain CNN, paired by split."""
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    controls = controls_of(table)
    base = next((control for control in controls if control.label == BASE), None)
    points = chosen_points(table, space)
    apart = APART if len(table.splits) > 1 else 0.0
    for position, line in enumerate([*points, *controls]):
        style = _style(position, line, space)
        shift = apart * (position - (len(points) + len(controls) - 1) / 2)
        values = {n: list(line.values(f"{where(n)}/{metric}").values()) for n in table.settings}
        _draw(left, table, values, style, shift)
        if base is not None and line is not base:
            paired = {n: difference(line, base, f"{where(n)}/{metric}") for n in table.settings}
            _draw(right, table, paired, style, shift)
    left.set(ylabel=f"{LABELS[metric]} on test images, %")
    right.set(ylabel=f"{LABELS[metric]} minus that of the plain CNN, points")
    right.axhline(0, color="black", lw=1, zorder=1)
    for axes in (left, right):
        axes.set(xlabel="openness, %")
        axes.grid(alpha=0.3)
    legend_beside(figure)
    bars = "bars: standard deviation; to the right paired by split; curves set apart sideways"
    some = "" if len(points) == len(space.points) else f"{len(points)} of {len(space.points)} points are drawn."
    caption(figure, table, points, bars, some)
    return figure


def chosen_points(table: SweepTable, space: Space) -> list[Point]:
    """Named points, or all where they are few; else the selected one and those that the paper singles out."""
    if space.told.points or len(space.points) <= MOST:
        return [point for point in space.points if not point.fate]
    leads = [found[0] for n in table.settings if (found := lead_of(table, space, where(n), "macro_f1"))]
    selected = [space.selected] if space.selected else []
    return list({point.label: point for point in [*selected, *leads]}.values())


def _style(position: int, line: Point, space: Space) -> dict[str, Any]:
    if not line.params:  # a control
        return {"label": NAMES.get(line.label, line.label), **CONTROL_STYLES.get(line.label, OTHER_CONTROL), "lw": 1.4}
    style = {"color": LINES[position % len(LINES)], "marker": MARKERS[position % len(MARKERS)], "ms": 5, "lw": 1.6}
    if line is not space.selected:
        return {**style, "label": line.label}
    return {**style, "label": f"{line.label} (selected)", "lw": 2.6, "mec": SELECTED, "mew": 1.5}


def _draw(
    axes: Axes, table: SweepTable, values: dict[Setting, list[float]], style: dict[str, Any], shift: float
) -> None:
    """Mean and standard deviation at each setting that has a value."""
    settings = [setting for setting in table.settings if values[setting]]
    xs = [100 * (table.openness(setting) or 0.0) + shift for setting in settings]
    means = [100 * mean(values[setting]) for setting in settings]
    spreads = [100 * std(values[setting]) for setting in settings]
    bars = [0.0 if math.isnan(spread) else spread for spread in spreads]
    axes.errorbar(xs, means, bars if any(bars) else None, elinewidth=0.9, capsize=2, **style)
