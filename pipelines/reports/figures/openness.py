"""A metric against openness: points of a space and the controls, with standard deviation over splits. At one openness
alone each has a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.reports.figures.parts import legend_beside, title_and_caption
from pipelines.reports.figures.style import POINT_STYLES, Style, styles_of
from pipelines.reports.spaces import Space, lead_of
from pipelines.reports.sweep_table import Point, controls_of, mean, paired, std
from proser_core import titles
from proser_core.data.splits.class_split import Setting, where

BASE = titles.MSP
"""The paper's plain CNN."""
MOST = len(POINT_STYLES)  # curves of points that can be told apart
APART = 0.45  # shift between neighbouring curves, in points of openness: some lie on each other
WIDEST = 0.3  # shift between the first and the last of many, of the smallest step in openness: groups stay apart
BAR: dict[str, Any] = {"elinewidth": 0.9, "capsize": 2}
BARS = "bars: standard deviation"
SPREAD = f"{BARS}; to the right paired by split"
SHIFTED = "Points of one openness stand side by side."
ROW = 0.17  # height of a line of the legend, inches


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
    figure = openness_panels(curves, titles.METRICS[metric], openness)
    some = "" if len(points) == len(space.points) else f"{len(points)} of {len(space.points)} points are drawn."
    shifted = SHIFTED if len(openness) > 1 else ""
    title_and_caption(figure, space, points, SPREAD, shifted, some)
    return figure


def openness_panels(curves: Sequence[Curve], metric: str, unknown: Mapping[float, Setting]) -> Figure:
    """`unknown` are numbers of classes by openness. Left as the paper draws it; right, where it was measured, each
    curve's difference to MSP, the paper's plain CNN, paired by split, so that curves that lie on each other come apart.
    At one openness each has a row."""
    base = next((curve for curve in curves if curve.label == BASE), None)
    panels = [(f"{metric} on test images, %", curves)]
    if base is not None:
        panels.append((f"{metric} minus that of {BASE}, points", [_minus(curve, base) for curve in curves]))
    found = {openness for curve in curves for openness in curve.values}
    by_row = len(found) == 1
    height = max(4.2, 1.0 + ROW * len(curves))
    figure = Figure(figsize=(10.5 if base else 6.5, height), layout="constrained")
    across = figure.subplots(1, len(panels), squeeze=False, sharey=by_row)[0]
    for axes, (title, drawn) in zip(across, panels, strict=True):
        if by_row:
            _rows(axes, title, drawn, *found)
        else:
            _curves(axes, title, drawn, unknown)
        axes.grid(alpha=0.3)
    for axes in across[1:]:
        (axes.axvline if by_row else axes.axhline)(0, color="black", lw=1, zorder=1)
    if not by_row:
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


def _minus(curve: Curve, base: Curve) -> Curve:
    """The differences on splits that both have; the base itself has none."""
    if curve is base:
        return replace(curve, values={})
    return replace(curve, values={share: paired(found, base.values[share]) for share, found in curve.values.items()})


def _curves(axes: Axes, title: str, curves: Sequence[Curve], unknown: Mapping[float, Setting]) -> None:
    """Mean and standard deviation of each curve at each openness that has a value, in a group around it."""
    step = min((100 * (high - low) for low, high in pairwise(sorted(unknown))), default=0.0)
    apart = min(APART, WIDEST * step / max(1, len(curves) - 1))
    for position, curve in enumerate(curves):
        shift = apart * (position - (len(curves) - 1) / 2)
        measured = {openness: list(found.values()) for openness, found in curve.values.items() if found}
        if measured:
            xs = [100 * openness + shift for openness in measured]
            means, bars = zip(*map(_percents, measured.values()), strict=True)
            axes.errorbar(xs, means, bars if any(bars) else None, **BAR, label=curve.label, **curve.style)
    ticks = {100 * share: f"{100 * share:.1f} %\n{number} unknown" for share, number in unknown.items()}
    axes.set_xticks([*ticks], [*ticks.values()], fontsize=8)
    axes.set(xlabel="openness, and number of unknown classes", ylabel=title)


def _rows(axes: Axes, title: str, curves: Sequence[Curve], openness: float) -> None:
    """Mean and standard deviation of each curve at the one openness, from the top down."""
    for row, curve in enumerate(curves):
        found = list(curve.values.get(openness, {}).values())
        if found:
            middle, bar = _percents(found)
            axes.errorbar(middle, row, xerr=bar or None, **BAR, label=curve.label, **curve.style)
    axes.set_yticks(range(len(curves)), [curve.label for curve in curves], fontsize=8)
    axes.set(xlabel=title, ylim=(len(curves) - 0.5, -0.5))
    axes.set_title(f"openness {100 * openness:.2f} %", fontsize=9)


def _percents(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation, 0 of one value."""
    return 100 * mean(values), float(np.nan_to_num(100 * std(values)))
