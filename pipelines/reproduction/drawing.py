"""Figures of a reproduction: measured and published numbers, and a metric against openness."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from pipelines.reports.figures.openness import BARS, SHIFTED, SPREAD, Curve, openness_panels
from pipelines.reports.figures.style import BLACK, GREY, METHOD_STYLES, add_caption, entitle, styles_of
from pipelines.reproduction.paper_figures.running_time import running_time
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES
from pipelines.reproduction.published import UNKNOWN
from pipelines.reproduction.results import OWN_SCHEDULE, TableColumn
from proser_core.baselines import METHODS
from proser_core.data.splits.class_split import openness

MOST = 40
"""Curves whose marks can be told apart."""


def figures_of(name: str, columns: Sequence[TableColumn], images: str, facts: Mapping[str, str]) -> dict[str, Figure]:
    """The figures of a protocol by name: dots for its columns, and a curve where they are one metric over openness;
    none where nothing was measured. `images` says of which data set, class splits and seed, `facts` are the report's:
    times have the schedules of the trainings."""
    if not any(column.splits for column in columns):
        return {}
    if columns[0].spec.is_time:
        # rows of one network of a method's own have one time
        seconds = {_network_or_method(row.method): row.mean for row in columns[0].rows if row.values}
        own = facts.get(OWN_SCHEDULE)
        but = f", but for {OWN_SCHEDULE} ({own})" if own else ""
        about = f"{images}; {facts['schedule']}; times include the pretraining{but}"
        return {"running_time": running_time(seconds, about)}
    drawn = {"methods": dots(columns)}
    if name == "cifar100-openness":
        drawn["against_openness"] = against_openness(name, columns)
    for figure in drawn.values():
        entitle(figure, f"{name}: {images}")
    return drawn


def _network_or_method(name: str) -> str:
    return (METHODS[name].network if name in METHODS else "") or name


def dots(columns: Sequence[TableColumn]) -> Figure:
    """A panel per column: filled dots for what was measured, with its deviation over class splits; for published
    numbers hollow diamonds, and crosses where its class lists are unknown or others; all in the method's colour."""
    methods = list(dict.fromkeys(row.method for column in columns for row in column.rows))
    colours = {method: METHOD_STYLES.get(method, {"color": GREY})["color"] for method in methods}
    figure = Figure(figsize=(2.2 + 2.6 * len(columns), 1.3 + 0.3 * len(methods)), layout="constrained")
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        for row in column.rows:
            place = methods.index(row.method)
            if row.values:
                deviation = 0.0 if math.isnan(row.std) else row.std
                axes.errorbar(row.mean, place, xerr=deviation, fmt="o", color=colours[row.method], capsize=3)
            for each in row.quoted:
                axes.plot(each.mean, place, **_mark(each.family), color=colours[row.method])
        axes.set_title(f"{column.spec.title}: {column.spec.unit}", fontsize=9)
        axes.grid(alpha=0.3)
    panels[0].set_yticks(range(len(methods)), methods, fontsize=8)
    panels[0].set_ylim(len(methods) - 0.5, -0.5)
    marks = [*panels[0].plot([], [], "o", color=BLACK, label="measured here")]
    families = dict.fromkeys(each.family for column in columns for row in column.rows for each in row.quoted)
    for family in sorted(families, key=lambda family: family == UNKNOWN):
        label = "published, of other class lists" if family == UNKNOWN else "published"
        marks += panels[0].plot([], [], **_mark(family), color=BLACK, label=label)
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=8)
    return figure


def _mark(family: str) -> dict[str, Any]:
    """How a published number is drawn."""
    if family == UNKNOWN:
        return {"marker": "x", "ms": 6, "linestyle": "none"}
    return {"marker": "D", "mfc": "none", "ms": 6, "linestyle": "none"}


def against_openness(name: str, columns: Sequence[TableColumn]) -> Figure:
    """A line per method over the columns of a protocol, whose settings differ in their openness alone."""
    data = STUDIES[PROTOCOLS[name].studies[0]].data
    unknown = {openness(data.num_known, data.num_known + each): each for each in data.unknown_settings}
    measured = dict.fromkeys(row.method for column in columns for row in column.rows if row.values)
    first = sorted(measured, key=lambda method: method not in METHOD_STYLES)[:MOST]
    methods = [method for method in measured if method in first]
    curves = []
    for method, style in styles_of(methods).items():
        rows = (next(row for row in column.rows if row.method == method) for column in columns)
        curves.append(Curve(method, style, {share: row.values for share, row in zip(unknown, rows, strict=True)}))
    figure = openness_panels(curves, columns[0].spec.unit.removesuffix(", %"), unknown)
    has_bars = any(len(row.values) > 1 for column in columns for row in column.rows)
    spread = SPREAD if len(figure.axes) > 1 else BARS
    caption = f"Means over class splits; {spread}. {SHIFTED}" if has_bars else SHIFTED
    some = f" {len(methods)} of {len(measured)} methods are drawn." if len(measured) > MOST else ""
    add_caption(figure, caption + some)
    return figure
