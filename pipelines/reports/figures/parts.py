"""What the figures of a sweep share: titles, lines of the controls, captions."""

import math
import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.reports.figures.style import CONTROL_STYLES, OTHER_CONTROL
from pipelines.reports.spaces import Space
from pipelines.reports.sweep_table import Point, SweepTable, controls_of
from proser_core import titles
from proser_core.data.splits.class_split import in_words, setting_at

DEVELOPMENT = "dev"
NAMED = 4  # so many points without a result are named in a caption


def panel_title(metric: str) -> str:
    """What a panel shows: a metric on development data or at a test setting."""
    place, _, metric = metric.rpartition("/")
    if place == DEVELOPMENT:
        return f"{titles.METRICS[metric]}, development, %"
    setting = setting_at(place)
    return f"{titles.METRICS[metric]}, {in_words(setting, 'test class' if setting == 1 else 'test classes')}, %"


def axis_title(field: str) -> str:
    """A field as the title of an axis."""
    return titles.FIELDS.get(field, field.replace("_", " "))


def percents(point: Point, metric: str) -> tuple[float, float]:
    """Mean and standard deviation over splits, in percent; NaN where there is none."""
    return 100 * point.mean(metric), 100 * point.std(metric)


def control_lines(axes: Axes, space: Space, metric: str, vertical: bool = False) -> None:
    """A line across the axes at the mean of each control."""
    draw = axes.axvline if vertical else axes.axhline
    for control in controls_of(space.table):
        middle = 100 * control.mean(metric)
        if math.isfinite(middle):
            draw(middle, lw=1.2, zorder=1, label=control.label, **CONTROL_STYLES.get(control.label, OTHER_CONTROL))


def legend_beside(figure: Figure) -> None:
    """One legend for all panels, to their right, each name once."""
    once: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            once.setdefault(label, handle)
    if once:
        figure.legend(once.values(), once.keys(), loc="outside right upper", frameon=False, fontsize=8)


def caption(figure: Figure, space: Space, points: list[Point], spread: str, *more: str) -> None:
    """Below the panels: what was averaged and how `spread` is drawn, then every point that lacks a split."""
    several, splits = len(space.table.splits) > 1, ", ".join(map(str, space.table.splits))
    averaged = f"Means over class splits {splits}; {spread}." if several else f"Class split {splits}."
    text = " ".join(part for part in (averaged, *more, *gaps(space.table, points)) if part)
    width = int(figure.get_figwidth() * 15.5)  # characters of this size in an inch
    figure.supxlabel("\n".join(textwrap.wrap(text, width)), fontsize=8, x=0.01, ha="left")


def gaps(table: SweepTable, points: list[Point]) -> list[str]:
    """Sentences on the points that did not finish on every split; many of one kind share one."""
    total = len(table.splits)
    by_kind: dict[str, list[str]] = {}
    for point in points:
        if not point.num_finished:
            kind = f"{point.status} on every split" if total > 1 else point.status
        elif point.num_finished < total:
            kind = f"{point.num_finished} of {total} splits"
        else:
            continue
        by_kind.setdefault(kind, []).append(point.label)
    named = {
        kind: "; ".join(labels) if len(labels) <= NAMED else f"{len(labels)} points, named in results.md"
        for kind, labels in by_kind.items()
    }
    return [f"{kind.capitalize()}: {labels}." for kind, labels in named.items()]
