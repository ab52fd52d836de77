"""What the figures of a sweep share: titles, lines of the controls, captions."""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.reports.figures.style import add_caption, entitle, styles_of
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
    """A line across the axes at the mean of each control, its mark at the end."""
    draw = axes.axvline if vertical else axes.axhline
    controls = controls_of(space.table)
    styles = styles_of(control.label for control in controls)
    for control in controls:
        middle = 100 * control.mean(metric)
        if math.isfinite(middle):
            style = {**styles[control.label], "zorder": 1, "markevery": [1], "clip_on": False}
            draw(middle, label=control.label, **style)


def legend_beside(figure: Figure) -> None:
    """One legend for all panels, to their right, each name once."""
    once: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            once.setdefault(label, handle)
    if once:
        figure.legend(once.values(), once.keys(), loc="outside right upper", frameon=False, fontsize=8)


def title_and_caption(figure: Figure, space: Space, points: list[Point], spread: str, *more: str) -> None:
    """Above the panels data set, class splits and seed; below them how `spread` is drawn, and every point that lacks a
    split."""
    entitle(figure, f"{space.title}: {space.table.images}")
    averaged = f"Means over class splits; {spread}." if len(space.table.splits) > 1 else ""
    add_caption(figure, " ".join(part for part in (averaged, *more, *gaps(space.table, points)) if part))


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
