"""A metric against openness: points of a space and the controls, with standard deviation over splits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.reports.figures.parts import legend_beside, title_and_caption
from pipelines.reports.figures.style import POINT_STYLES, Style, styles_of
from pipelines.reports.spaces import Space, lead_of
from pipelines.reports.sweep_table import Point, controls_of, mean, std
from proser_core import titles
from proser_core.data.splits.class_split import where

BASE = titles.MSP
"""The paper's plain CNN."""
MOST = len(POINT_STYLES)  # curves of points that can be told apart
APART = 0.2  # shift between neighbouring curves, in points of openness: some lie on each other
APART_BARS = 0.45  # with error bars
SPREAD = "bars: standard deviation; to the right paired by split"


@dataclass(frozen=True)
class Curve:
    """One method or point: its values, fractions, by openness, a fraction, and class split."""

    label: str
    style: Style
    values: dict[float, dict[int, float]]


def against_openness(space: Space, metric: str) -> Figure:
    """Points and controls of a space."""
    table, points = space.table, chosen_points(space)
    lines = [*points, *controls_of(table)]
    openness = {each: n for n in table.settings if (each := table.split.openness(n)) is not None}
    styles = styles_of(_method(space, line) for line in lines)
    curves = [
        Curve(
            _label(space, line),
            styles[_method(space, line)],
            {each: line.values(f"{where(n)}/{metric}") for each, n in openness.items()},
        )
        for line in lines
    ]
    figure = openness_panels(curves, titles.METRICS[metric], APART_BARS if len(table.splits) > 1 else APART)
    some = "" if len(points) == len(space.points) else f"{len(points)} of {len(space.points)} points are drawn."
    title_and_caption(figure, space, points, SPREAD, "Curves are shifted sideways.", some)
    return figure


def openness_panels(curves: Sequence[Curve], metric: str, apart: float) -> Figure:
    """Left as the paper draws it; right, where it was measured, each curve's difference to MSP, the paper's plain CNN,
    paired by split, so that curves that lie on each other come apart."""
    base = next((curve for curve in curves if curve.label == BASE), None)
    figure = Figure(figsize=(10.5 if base else 6.5, 4.2), layout="constrained")
    left, *right = figure.subplots(1, 2 if base else 1, squeeze=False)[0]
    left.set(ylabel=f"{metric} on test images, %")
    for position, curve in enumerate(curves):
        shift = apart * (position - (len(curves) - 1) / 2)
        _draw(left, curve, {each: list(found.values()) for each, found in curve.values.items()}, shift)
        if base is not None and curve is not base:
            paired = {
                each: [found[split] - base.values[each][split] for split in found.keys() & base.values[each].keys()]
                for each, found in curve.values.items()
            }
            _draw(right[0], curve, paired, shift)
    for axes in right:
        axes.set(ylabel=f"{metric} minus that of {BASE}, points")
        axes.axhline(0, color="black", lw=1, zorder=1)
    for axes in (left, *right):
        axes.set(xlabel="openness, %")
        axes.grid(alpha=0.3)
    legend_beside(figure)
    return figure


def chosen_points(space: Space) -> list[Point]:
    """Named points, or all where they are few; else the selected one, the recipe's own, and the paper's best."""
    if space.info.points or len(space.points) <= MOST:
        return [point for point in space.points if point.num_finished]
    leads = [found[0] for n in space.table.settings if (found := lead_of(space, f"{where(n)}/macro_f1"))]
    chosen = [space.selected, space.own, *leads]
    return list({point.label: point for point in chosen if point and point.num_finished}.values())


def _method(space: Space, line: Point) -> str:
    """The method that a point is: PROSER as selected, or by the recipe's own point."""
    if line is space.selected:
        return titles.PROSER
    return titles.OWN_POINT if line is space.own else line.label


def _label(space: Space, line: Point) -> str:
    marks = ["selected"] * (line is space.selected) + ["recipe's own"] * (line is space.own)
    return f"{line.label} ({', '.join(marks)})" if marks else line.label


def _draw(axes: Axes, curve: Curve, values: dict[float, list[float]], shift: float) -> None:
    """Mean and standard deviation at each openness that has a value."""
    measured = {openness: found for openness, found in values.items() if found}
    xs = [100 * openness + shift for openness in measured]
    means = [100 * mean(found) for found in measured.values()]
    bars = np.nan_to_num([100 * std(found) for found in measured.values()])
    axes.errorbar(xs, means, bars if bars.any() else None, elinewidth=0.9, capsize=2, label=curve.label, **curve.style)
