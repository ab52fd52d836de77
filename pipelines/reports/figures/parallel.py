"""Parallel coordinates: a line per point, through its fields and its metrics."""

import math
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from pipelines.reports.figures.parts import percents, title_and_caption
from pipelines.reports.figures.scales import Scale
from pipelines.reports.figures.style import SELECTED
from pipelines.reports.spaces import Space
from pipelines.reports.sweep_table import Point
from proser_core import titles
from proser_core.data.splits.class_split import in_words, where
from proser_core.jobs.spec import SELECTION_METRIC

# as in heat maps bright is high; the bright end of viridis is too pale for a line on white
COLOURS = LinearSegmentedColormap.from_list("lines", matplotlib.colormaps["viridis"](range(226)))
LOST: dict[str, Any] = {"color": "#888888", "lw": 1.0, "ls": ":"}


def parallel_coordinates(space: Space) -> Figure:
    """Varied fields, then development macro-F1, test macro-F1 and AUROC at the smallest setting; means over splits. A
    point that finished on no split ends in a cross: after its fields, or at what it had reached when stopped."""
    metrics = {SELECTION_METRIC: "development\nmacro-F1, %"}
    for setting in space.table.settings[:1]:
        metrics |= {
            f"{where(setting)}/{name}": f"{titles.METRICS[name]}, %,\n{in_words(setting)}"
            for name in ("macro_f1", "auroc")
        }
    finished = [point for point in space.points if point.num_finished]
    fields = {name: Scale.of([point.params[name] for point in space.points]) for name in space.varied}
    reached = {metric: Scale.measured([100 * point.last(metric) for point in space.points]) for metric in metrics}
    heads = [titles.SHORT.get(name, name).replace("_", "\n") for name in fields] or ["point"]
    heads += metrics.values()
    figure = Figure(figsize=(min(1.6 + 1.5 * len(heads), 16), 4.4), layout="constrained")
    axes = figure.add_subplot()
    chosen = [percents(point, SELECTION_METRIC)[0] for point in finished]
    colours: Any = ScalarMappable(Normalize(min(chosen, default=0), max(chosen, default=1)), COLOURS)
    for point in sorted(space.points, key=lambda point: (point.num_finished > 0, _reached(point))):
        places = [scale.place(point.params[name]) for name, scale in fields.items()] or [0.5]
        if not point.num_finished:
            _lost(axes, places, 100 * point.last(SELECTION_METRIC), reached[SELECTION_METRIC])
            continue
        places += [scale.place(percents(point, metric)[0]) for metric, scale in reached.items()]
        is_selected = point is space.selected
        if is_selected:
            axes.plot(places, color=SELECTED, lw=5, zorder=3)
        axes.plot(places, color=colours.to_rgba(_reached(point)), lw=2.5 if is_selected else 1.4, zorder=3)
    for position, scale in enumerate([*(fields.values() or [Scale.of([space.title])]), *reached.values()]):
        _axis(axes, position, scale)
    axes.set_xticks(range(len(heads)), heads, fontsize=8)
    axes.set(xlim=(-0.4, len(heads) - 0.6), ylim=(-0.06, 1.06), yticks=[])
    axes.spines[:].set_visible(False)
    figure.colorbar(colours, ax=axes, shrink=0.8, label="development macro-F1, %")
    lost = "Dotted, ending in a cross: failed or stopped on every split." if len(finished) < len(space.points) else ""
    title_and_caption(
        figure, space, space.points, "colour: development", "Edged in orange: selected on development.", lost
    )
    return figure


def _lost(axes: Axes, places: list[float], stopped_at: float, scale: Scale) -> None:
    """A line that ends in a cross."""
    shift, end = (0.3, places[-1]) if math.isnan(stopped_at) else (1.0, scale.place(stopped_at))
    xs = [*range(len(places)), len(places) - 1 + shift]
    axes.plot(xs, [*places, end], **LOST)
    axes.plot(xs[-1], end, "x", color="black", ms=6)


def _reached(point: Point) -> float:
    value = percents(point, SELECTION_METRIC)[0]
    return -math.inf if math.isnan(value) else value


def _axis(axes: Axes, position: int, scale: Scale) -> None:
    axes.axvline(position, color="black", lw=0.8, zorder=2)
    for place, text in scale.ticks:
        axes.plot([position - 0.02, position], [place, place], color="black", lw=0.8)
        box = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.6}
        axes.text(position - 0.04, place, text, ha="right", va="center", fontsize=7, bbox=box, zorder=4)
