"""Generated and real novel embeddings, vanilla and manifold mixup (supplement, fig. Visualization of
generated novel instances)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pipelines.reports.figures.style import COLOURS
from pipelines.reproduction.paper_figures.planes import NOVEL_MARKERS, Grid, Shown, draw_known, draw_novel, legend_below

GENERATED: dict[str, Any] = {"marker": "P", "color": COLOURS[2], "edgecolors": "#5c2800", "linewidths": 0.4, "s": 20}


@dataclass(frozen=True, kw_only=True)
class Generated(Shown):
    """What a way of mixing generates in the plane of the network that was trained with it.

    `generated` float[G, 2] are embeddings of mixtures, `in_known_space` the share of them that the network takes as
    known.
    """

    mixup: str
    generated: np.ndarray
    in_known_space: float


def novel_embeddings(ways: Sequence[Generated], grid: Grid, class_names: Sequence[str]) -> Figure:
    """A panel for each way of mixing, on the axes of `grid`."""
    novel = list(ways[0].novel)
    figure = Figure(figsize=(0.5 + 5.2 * len(ways), 5.6), layout="constrained")
    panels = figure.subplots(1, len(ways), sharex=True, sharey=True, squeeze=False)[0]
    for letter, axes, way in zip("abcdef", panels, ways, strict=False):
        draw_known(axes, way, class_names, pale=True)
        for number, name in enumerate(novel):
            draw_novel(axes, way.novel[name], number, name)
        axes.scatter(*way.generated.T, label="generated", zorder=4, **GENERATED)
        share = f"{100 * way.in_known_space:.0f} % of the generated ones taken as known"
        axes.set_title(f"({letter}) {way.mixup} mixup: {share}", fontsize=10)
        axes.set(xlim=(grid.x[0], grid.x[-1]), ylim=(grid.y[0], grid.y[-1]), xlabel="first dimension of the embedding")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("second dimension of the embedding")
    marks = {f"real novel: {name}": NOVEL_MARKERS[number % len(NOVEL_MARKERS)] for number, name in enumerate(novel)}
    legend_below(figure, class_names, {**marks, "generated novel": GENERATED}, areas=False)
    return figure
