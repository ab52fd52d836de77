"""Decision boundaries in a 2-d embedding, thresholds and PROSER (fig. Visualization on open-set recognition)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from pipelines.reproduction.paper_figures.planes import (
    NOVEL_MARKERS,
    Grid,
    Shown,
    draw_known,
    draw_novel,
    draw_regions,
    legend_below,
)


@dataclass(frozen=True, kw_only=True)
class Decisions(Shown):
    """A method in the plane of its network.

    `regions` int[h, w] are its decisions on the grid, K for unknown; `kept` and `rejected` the shares of all test
    images that are taken as known, and by novel class as unknown.
    """

    method: str
    regions: np.ndarray
    kept: float
    rejected: Mapping[str, float]


def decision_boundaries(methods: Sequence[Decisions], grid: Grid, class_names: Sequence[str]) -> Figure:
    """A row for each novel class, a column for each method; every panel on the axes of `grid`."""
    novel = list(methods[0].novel)
    figure = Figure(figsize=(0.4 + 3.7 * len(methods), 0.8 + 3.55 * len(novel)), layout="constrained")
    panels = figure.subplots(len(novel), len(methods), sharex=True, sharey=True, squeeze=False)
    for row, name in enumerate(novel):
        for column, method in enumerate(methods):
            axes = panels[row, column]
            draw_regions(axes, grid, method.regions, len(class_names))
            draw_known(axes, method, class_names)
            draw_novel(axes, method.novel[name], row, name)
            letter = chr(ord("a") + row * len(methods) + column)
            shares = f"{100 * method.rejected[name]:.0f} % of {name} rejected, {100 * method.kept:.0f} % of known kept"
            axes.set_title(f"({letter}) {method.method}\n{shares}", fontsize=9.5)
    for axes in panels[:, 0]:
        axes.set_ylabel("second dimension of the embedding")
    for axes in panels[-1]:
        axes.set_xlabel("first dimension of the embedding")
    marks = {f"unknown: {name}": NOVEL_MARKERS[number % len(NOVEL_MARKERS)] for number, name in enumerate(novel)}
    legend_below(figure, class_names, marks, areas=True)
    return figure
