"""Curve over one numeric field, or one curve per value of a second field that holds words."""

import math

from matplotlib.axes import Axes

from pipelines.reports.figures.parts import axis_title, control_lines, percents
from pipelines.reports.figures.scales import Scale
from pipelines.reports.figures.style import LINES, MARKERS, SELECTED
from pipelines.reports.published import lead_of, published_at
from pipelines.reports.spaces import Space
from pipelines.reports.sweep_table import Point, SweepTable, is_numeric

BAND, BARS = "band: standard deviation", "bars: standard deviation"
CAPTION, PAPER = "Large diamond: selected.", "Hollow and dotted: published."


def size(space: Space) -> tuple[float, float]:
    """Width and height of a panel, inches."""
    return 3.9, 3.1


def curve(axes: Axes, table: SweepTable, space: Space, controls: list[Point], place: str, metric: str) -> None:
    """The mean over splits with its band, the dots of each split, the controls as lines across."""
    (field,) = space.varied
    points = sorted(space.points, key=lambda point: point.params[field])
    scale = Scale.of([point.params[field] for point in points])
    control_lines(axes, controls, f"{place}/{metric}")
    name = "mean over splits" if len(table.splits) > 1 else "PROSER"
    _line(axes, scale, points, field, f"{place}/{metric}", LINES[0], "o", name, 0.0)
    xs = [scale.place(point.params[field]) for point in points]
    for split in table.splits if len(table.splits) > 1 else ():
        ys = [100 * point.values(f"{place}/{metric}").get(split, math.nan) for point in points]
        axes.plot(xs, ys, ".-", ms=4, lw=0.7, color=LINES[0], alpha=0.5, label="each split")
    _finish(axes, scale, space, field, f"{place}/{metric}", points)
    lead = lead_of(table, space, place, metric)
    if lead is not None:
        axes.axvline(scale.place(lead[0].params[field]), color=LINES[2], lw=1.2, ls="-.", label=f"paper: {lead[1]}")


def grouped(axes: Axes, table: SweepTable, space: Space, controls: list[Point], place: str, metric: str) -> None:
    """A curve for each value of the field of words; published values hollow and dotted in the same colour."""
    by_number = is_numeric(point.params[space.varied[0]] for point in space.points)
    field, group = space.varied if by_number else reversed(space.varied)
    scale = Scale.of([point.params[field] for point in space.points])
    control_lines(axes, controls, f"{place}/{metric}")
    names = sorted({str(point.params[group]) for point in space.points})
    for position, name in enumerate(names):
        points = sorted(
            (point for point in space.points if str(point.params[group]) == name), key=lambda p: p.params[field]
        )
        colour, marker = LINES[position % len(LINES)], MARKERS[position % len(MARKERS)]
        shift = 0.012 * (position - (len(names) - 1) / 2)
        _line(axes, scale, points, field, f"{place}/{metric}", colour, marker, name, shift)
        printed = [(point, value) for point in points if (value := published_at(table, space, point, place, metric))]
        if printed:
            xs = [scale.place(point.params[field]) for point, _ in printed]
            ys = [100 * value for _, value in printed]
            axes.plot(xs, ys, marker, color=colour, mfc="white", ls=":", lw=1.2, label=f"{name}, paper")
    _finish(axes, scale, space, field, f"{place}/{metric}", space.points)


def _line(
    axes: Axes,
    scale: Scale,
    points: list[Point],
    field: str,
    metric: str,
    colour: str,
    marker: str,
    label: str,
    shift: float,
) -> None:
    """Mean and spread; broken where a point has no value."""
    xs = [scale.place(point.params[field]) + shift for point in points]
    means, spreads = zip(*(percents(point, metric) for point in points), strict=True)
    bars = [0 if math.isnan(spread) else spread for spread in spreads]
    if any(bars):
        axes.errorbar(xs, means, bars, color=colour, lw=0, elinewidth=1.2 if shift else 0.6)
    if not shift:
        low = [middle - spread for middle, spread in zip(means, spreads, strict=True)]
        high = [middle + spread for middle, spread in zip(means, spreads, strict=True)]
        axes.fill_between(xs, low, high, color=colour, alpha=0.18, lw=0)
    axes.plot(xs, means, marker=marker, color=colour, lw=2, ms=5, label=label)


def _finish(axes: Axes, scale: Scale, space: Space, field: str, metric: str, points: list[Point]) -> None:
    """The selected point, a cross for each point without a value, and the axis."""
    chosen = space.selected
    if chosen is not None and chosen.values(metric):
        place = (scale.place(chosen.params[field]), percents(chosen, metric)[0])
        axes.plot(*place, "D", ms=10, mfc="none", mec=SELECTED, mew=2)
    for point in points:
        if not point.num_finished:
            x = scale.place(point.params[field])
            axes.text(
                x, 0.02, f"x {point.status}", transform=axes.get_xaxis_transform(), rotation=90, ha="center", fontsize=8
            )
    axes.set_xticks([place for place, _ in scale.ticks], [text for _, text in scale.ticks])
    axes.set_xlabel(axis_title(field))
    axes.grid(alpha=0.3)
