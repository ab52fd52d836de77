"""A metric over the points of a space: the kind of figure follows from what varies."""

import math
from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.reports.figures import curves, dots, heat_maps
from pipelines.reports.figures.parts import legend_beside, panel_title, title_and_caption
from pipelines.reports.spaces import Space, lead_of, published_at
from pipelines.reports.sweep_table import is_numeric

Panel = Callable[[Axes, Space, str], None]
Size = Callable[[Space], tuple[float, float]]


def kind(space: Space) -> str:
    """heat_map (two numeric fields that fill a grid), curve (one), grouped (one and one of words), else dots."""
    cells = {tuple(str(point.params[name]) for name in space.varied) for point in space.points}
    numeric = [is_numeric(point.params[name] for point in space.points) for name in space.varied]
    if len(cells) < len(space.points):
        return "dots"
    if numeric == [True, True]:
        return "heat_map" if space.is_grid else "dots"
    return {(True,): "curve", (True, False): "grouped", (False, True): "grouped"}.get(tuple(numeric), "dots")


PANELS: dict[str, tuple[Panel, Size, str, str]] = {  # what draws a panel, its size, and the words of its caption
    "heat_map": (heat_maps.panel, heat_maps.size, heat_maps.SPREAD, heat_maps.CAPTION),
    "curve": (curves.curve, lambda space: (3.9, 3.1), curves.BAND, curves.CAPTION),
    "grouped": (curves.grouped, lambda space: (3.9, 3.1), curves.BARS, curves.CAPTION),
    "dots": (dots.panel, dots.size, dots.SPREAD, dots.CAPTION),
}
COLUMNS = 2
OWN_COLOURS = "Each panel has its own colours."


def over_points(space: Space, metrics: list[str]) -> Figure:
    """A panel per metric, such as `test/unknown_15/auroc`, with the controls where the kind has room for them."""
    which = kind(space)
    draw, size, spread, marks = PANELS[which]
    columns = min(len(metrics), COLUMNS)
    rows = math.ceil(len(metrics) / columns)
    width, height = size(space)
    beside = {"heat_map": 0.0, "dots": 2.0 + dots.room_for_labels(space)}.get(which, 2.0)  # legend, labels; inches
    figure = Figure(figsize=(columns * width + beside, rows * height + 0.7), layout="constrained")
    for position, metric in enumerate(metrics):
        axes = figure.add_subplot(rows, columns, position + 1)
        draw(axes, space, metric)
        axes.set_title(panel_title(metric), fontsize=9)
        if which == "dots" and position % columns:
            axes.tick_params(labelleft=False)
    legend_beside(figure)
    colours = OWN_COLOURS if which == "heat_map" and len(metrics) > 1 else ""
    more = dots.left_out(space) if which == "dots" else ""
    title_and_caption(figure, space, space.points, spread, marks, more, colours, _paper(space, which, metrics))
    return figure


def _paper(space: Space, which: str, metrics: list[str]) -> str:
    """How the paper's own is drawn, where any of it is."""
    if which == "heat_map" and any(lead_of(space, metric) for metric in metrics):
        return heat_maps.PAPER
    printed = any(published_at(space, point, metric) for point in space.points for metric in metrics)
    return curves.PAPER if which == "grouped" and printed else ""
