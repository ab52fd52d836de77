"""Curve over one numeric field, or one curve per value of a second field that holds words."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from pipelines.reports.figures.parts import axis_title, control_lines, percents
from pipelines.reports.figures.scales import Scale
from pipelines.reports.figures.style import BLACK, GREEN, METHOD_STYLES, SELECTED, styles_of
from pipelines.reports.spaces import Space, lead_of, published_at
from pipelines.reports.sweep_table import Point, is_numeric
from proser_core.titles import PROSER

BAND, BARS = "band: standard deviation", "bars: standard deviation"
CAPTION, PAPER = "Large diamond: selected.", "Hollow and dotted: published."


def curve(axes: Axes, space: Space, metric: str) -> None:
    """The mean over splits with its band, the dots of each split, the controls as lines across."""
    (field,) = space.varied
    points = sorted(space.points, key=lambda point: point.params[field])
    scale, splits = Scale.of([point.params[field] for point in points]), space.table.splits
    xs = np.array([scale.place(point.params[field]) for point in points])
    control_lines(axes, space, metric)
    name = f"{PROSER}, mean over splits" if len(splits) > 1 else PROSER
    style = METHOD_STYLES[PROSER] | {"marker": "o", "ms": 5}
    means, spreads = _line(axes, xs, points, metric, elinewidth=0.6, label=name, **style)
    axes.fill_between(xs, means - spreads, means + spreads, color=SELECTED, alpha=0.18, lw=0)
    for split in splits if len(splits) > 1 else ():
        ys = [100 * point.values(metric).get(split, np.nan) for point in points]
        axes.plot(xs, ys, ".-", ms=4, lw=0.7, color=SELECTED, alpha=0.5, label="each split")
    _finish(axes, scale, space, field, metric)
    lead = lead_of(space, metric)
    if lead is not None:
        axes.axvline(scale.place(lead[0].params[field]), color=GREEN, lw=1.2, ls="-.", label=f"paper: {lead[1]}")


def grouped(axes: Axes, space: Space, metric: str) -> None:
    """A curve for each value of the field of words; published values hollow and dotted in the same colour."""
    by_number = is_numeric(point.params[space.varied[0]] for point in space.points)
    field, group = space.varied if by_number else reversed(space.varied)
    ordered = sorted(space.points, key=lambda point: point.params[field])
    scale = Scale.of([point.params[field] for point in ordered])
    control_lines(axes, space, metric)
    names = sorted({str(point.params[group]) for point in ordered})
    styles = styles_of(names)
    for position, name in enumerate(names):
        points = [point for point in ordered if str(point.params[group]) == name]
        xs = np.array([scale.place(point.params[field]) for point in points])
        shift = 0.012 * (position - (len(names) - 1) / 2)
        style = styles[name] | {"lw": 2.0, "mfc": styles[name]["color"]}
        _line(axes, xs + shift, points, metric, elinewidth=1.2, label=name, **style)
        printed = [100 * (published_at(space, point, metric) or np.nan) for point in points]
        if np.isfinite(printed).any():
            axes.plot(xs, printed, **(style | {"mfc": "white", "linestyle": ":", "lw": 1.2}), label=f"{name}, paper")
    _finish(axes, scale, space, field, metric)


def _line(
    axes: Axes, xs: np.ndarray, points: list[Point], metric: str, elinewidth: float, **style: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Draw means, broken where a point has no value, with bars of their standard deviation; return both."""
    means, spreads = np.array([percents(point, metric) for point in points]).T
    bars = np.nan_to_num(spreads)
    if bars.any():
        axes.errorbar(xs, means, bars, color=style["color"], lw=0, elinewidth=elinewidth)
    axes.plot(xs, means, **style)
    return means, spreads


def _finish(axes: Axes, scale: Scale, space: Space, field: str, metric: str) -> None:
    """The selected point, a cross for each point without a value, and the axis."""
    chosen, across = space.selected, axes.get_xaxis_transform()
    if chosen is not None and chosen.values(metric):
        place = (scale.place(chosen.params[field]), percents(chosen, metric)[0])
        axes.plot(*place, "D", ms=11, mfc="none", mec=BLACK, mew=1.6, zorder=6)
    for point in space.points:
        if not point.num_finished:
            x = scale.place(point.params[field])
            axes.text(x, 0.02, f"x {point.status}", transform=across, rotation=90, ha="center", fontsize=8)
    axes.set_xticks([place for place, _ in scale.ticks], [text for _, text in scale.ticks])
    axes.set_xlabel(axis_title(field))
    axes.grid(alpha=0.3)
