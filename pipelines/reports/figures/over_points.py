"""A metric over the points of a space: the kind of figure follows from what varies."""

import math
from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.reports.figures import curves, dots, heat_maps
from pipelines.reports.figures.parts import caption, legend_beside, panel_title
from pipelines.reports.published import lead_of, published_at
from pipelines.reports.spaces import Space
from pipelines.reports.sweep_table import Point, SweepTable, controls_of, is_numeric

Panel = Callable[[Axes, SweepTable, Space, list[Point], str, str], None]
Size = Callable[[Space], tuple[float, float]]


def kind(space: Space) -> str:
    """heat_map (two numeric fields that fill a grid), curve (one), grouped (one and one of words), else dots."""
    cells = {tuple(str(point.params[name]) for name in space.varied) for point in space.points}
    numeric = [is_numeric(point.params[name] for point in space.points) for name in space.varied]
    if len(cells) < len(space.points):
        return "dots"
    if numeric == [True, True]:
        return "heat_map" if _size_of_grid(space) <= 2 * len(space.points) else "dots"
    return {(True,): "curve", (True, False): "grouped", (False, True): "grouped"}.get(tuple(numeric), "dots")


def _size_of_grid(space: Space) -> int:
    return math.prod(len({point.params[name] for point in space.points}) for name in space.varied)


PANELS: dict[str, tuple[Panel, Size, str, str]] = {  # what draws a panel, its size, and the words of its caption
    "heat_map": (heat_maps.panel, heat_maps.size, heat_maps.SPREAD, heat_maps.CAPTION),
    "curve": (curves.curve, curves.size, curves.BAND, curves.CAPTION),
    "grouped": (curves.grouped, curves.size, curves.BARS, curves.CAPTION),
    "dots": (dots.panel, dots.size, dots.SPREAD, dots.CAPTION),
}
COLUMNS = 3


def over_points(table: SweepTable, space: Space, metric: str, places: list[str]) -> Figure:
    """A panel per place (`dev`, `test/unknown_15`, ...), with the controls where the kind has room for them."""
    which = kind(space)
    draw, size, spread, marks = PANELS[which]
    columns = min(len(places), COLUMNS)
    rows = math.ceil(len(places) / columns)
    width, height = size(space)
    beside = {"heat_map": 0.0, "dots": 2.0 + dots.room_for_labels(space)}.get(which, 2.0)  # legend, labels; inches
    figure = Figure(figsize=(columns * width + beside, rows * height + 0.7), layout="constrained")
    controls = controls_of(table)
    for position, place in enumerate(places):
        axes = figure.add_subplot(rows, columns, position + 1)
        draw(axes, table, space, controls, place, metric)
        axes.set_title(panel_title(place, metric), fontsize=9)
        if which == "dots" and position % columns:
            axes.tick_params(labelleft=False)
    legend_beside(figure)
    caption(figure, table, space.points, spread, marks, _paper(table, space, which, places, metric))
    return figure


def _paper(table: SweepTable, space: Space, which: str, places: list[str], metric: str) -> str:
    """How the paper's own is drawn, where any of it is."""
    if which == "heat_map" and any(lead_of(table, space, place, metric) for place in places):
        return heat_maps.PAPER
    printed = any(published_at(table, space, point, place, metric) for point in space.points for place in places)
    return curves.PAPER if which == "grouped" and printed else ""
