"""Figures of a 2-d embedding: decision boundaries (fig. Visualization on open-set recognition), and generated beside
real novel embeddings (supplement, fig. Visualization of generated novel instances)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from pipelines.reports.figures.style import BLUE, GREEN, ORANGE, PINK, SILVER, SKY, VERMILLION, entitle

KNOWN_COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, SILVER)
DOTS, AREAS = 0.88, 0.3  # a class's dots are darker than its colour, and its area paler, so that they stand out
KNOWN_MARKERS = "osDvp*h"  # one more than colours, so that no pair of both returns before class 42
NOVEL_MARKERS: tuple[dict[str, Any], ...] = (
    {"marker": "x", "color": "black", "linewidths": 0.8, "s": 15},
    {"marker": "^", "facecolors": "white", "edgecolors": "black", "linewidths": 0.8, "s": 17},
    {"marker": "<", "facecolors": "#bbbbbb", "edgecolors": "black", "linewidths": 0.8, "s": 17},
)
GENERATED: dict[str, Any] = {"marker": "P", "color": VERMILLION, "edgecolors": "#5c2800", "linewidths": 0.4, "s": 20}
UNKNOWN_FILL, UNKNOWN_HATCH, HATCH_COLOUR = "white", "////", "#a0a0a0"
MARGIN = 0.1  # of a plane around its points, as a share of their extent


@dataclass(frozen=True)
class Grid:
    """Places of a plane: columns at `x` float[w], rows at `y` float[h], both rising."""

    x: np.ndarray
    y: np.ndarray

    @classmethod
    def over(cls, points: Sequence[np.ndarray], steps: int = 300) -> "Grid":
        """A grid with room around every one of these float[N, 2]."""
        every = np.concatenate(points)
        low, high = every.min(axis=0), every.max(axis=0)
        room = MARGIN * np.maximum(high - low, 1e-6)
        x, y = np.linspace(low - room, high + room, steps).T
        return cls(x, y)

    @property
    def points(self) -> np.ndarray:
        """float[h * w, 2], row by row."""
        return np.stack(np.meshgrid(self.x, self.y), axis=-1).reshape(-1, 2)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Embeddings of the test images that are drawn: `known` float[N, 2] with `targets` int[N], `novel` float[M, 2] by
    class."""

    known: np.ndarray
    targets: np.ndarray
    novel: Mapping[str, np.ndarray]

    @property
    def clouds(self) -> list[np.ndarray]:
        """All of them."""
        return [self.known, *self.novel.values()]


@dataclass(frozen=True, kw_only=True)
class Decisions(Shown):
    """A method in the plane of its network: decisions int[h, w] on the grid, K for unknown, and the shares of all test
    images that are kept as known and, by novel class, rejected."""

    method: str
    regions: np.ndarray
    kept: float
    rejected: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Generated(Shown):
    """A way of mixing in the plane of the network trained with it: embeddings float[G, 2] of mixtures, and the share of
    them that the network takes as known."""

    mixup: str
    generated: np.ndarray
    in_known_space: float


def decision_boundaries(methods: Sequence[Decisions], grid: Grid, class_names: Sequence[str], title: str) -> Figure:
    """A row for each novel class, a column for each method; every panel on the axes of `grid`. `title` says of which
    data set, class split and seed."""
    novel = list(methods[0].novel)
    figure = Figure(figsize=(0.4 + 3.7 * len(methods), 0.8 + 3.55 * len(novel)), layout="constrained")
    panels = figure.subplots(len(novel), len(methods), sharex=True, sharey=True, squeeze=False)
    for row, name in enumerate(novel):
        for column, method in enumerate(methods):
            axes = panels[row, column]
            _draw_regions(axes, grid, method.regions, len(class_names))
            _draw_known(axes, method, class_names)
            _draw_novel(axes, method.novel[name], row, name)
            letter = chr(ord("a") + row * len(methods) + column)
            shares = f"{100 * method.rejected[name]:.0f} % of {name} rejected, {100 * method.kept:.0f} % of known kept"
            axes.set_title(f"({letter}) {method.method}\n{shares}", fontsize=9.5)
    for axes in panels[:, 0]:
        axes.set_ylabel("second dimension of the embedding")
    for axes in panels[-1]:
        axes.set_xlabel("first dimension of the embedding")
    marks = {f"unknown: {name}": NOVEL_MARKERS[number % len(NOVEL_MARKERS)] for number, name in enumerate(novel)}
    _legend_below(figure, class_names, marks, areas=True)
    entitle(figure, title)
    return figure


def novel_embeddings(ways: Sequence[Generated], grid: Grid, class_names: Sequence[str], title: str) -> Figure:
    """A panel for each way of mixing, on the axes of `grid`, with a title as above."""
    novel = list(ways[0].novel)
    figure = Figure(figsize=(0.5 + 5.2 * len(ways), 5.6), layout="constrained")
    panels = figure.subplots(1, len(ways), sharex=True, sharey=True, squeeze=False)[0]
    for letter, axes, way in zip("abcdef", panels, ways, strict=False):
        _draw_known(axes, way, class_names, pale=True)
        for number, name in enumerate(novel):
            _draw_novel(axes, way.novel[name], number, name)
        axes.scatter(*way.generated.T, label="generated", zorder=4, **GENERATED)
        share = f"{100 * way.in_known_space:.0f} % of the generated ones taken as known"
        axes.set_title(f"({letter}) {way.mixup} mixup: {share}", fontsize=10)
        axes.set(xlim=(grid.x[0], grid.x[-1]), ylim=(grid.y[0], grid.y[-1]), xlabel="first dimension of the embedding")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("second dimension of the embedding")
    marks = {f"real novel: {name}": NOVEL_MARKERS[number % len(NOVEL_MARKERS)] for number, name in enumerate(novel)}
    _legend_below(figure, class_names, {**marks, "generated novel": GENERATED}, areas=False)
    entitle(figure, title)
    return figure


def _draw_regions(axes: Axes, grid: Grid, regions: np.ndarray, num_known: int) -> None:
    """Decisions int[h, w] on a grid: a pale colour for each known class, hatched white for unknown, lines between."""
    for number in np.unique(regions):
        inside = (regions == number).astype(float)
        style: dict[str, Any] = {"colors": [_pale(_colour(number), AREAS)], "zorder": 0}
        edge: dict[str, Any] = {"colors": "#777777", "linewidths": 0.6, "zorder": 0.8}
        if number == num_known:
            style = {"colors": [UNKNOWN_FILL], "hatches": [UNKNOWN_HATCH], "zorder": 0}
            edge = {"colors": "black", "linewidths": 1.3, "zorder": 1}
        filled = axes.contourf(grid.x, grid.y, inside, levels=[0.5, 1.5], **style)
        if number == num_known:
            filled.set(edgecolor=HATCH_COLOUR, linewidth=0)
        if inside.mean() < 1:
            axes.contour(grid.x, grid.y, inside, levels=[0.5], **edge)
    axes.set(xlim=(grid.x[0], grid.x[-1]), ylim=(grid.y[0], grid.y[-1]))


def _draw_known(axes: Axes, shown: Shown, class_names: Sequence[str], *, pale: bool = False) -> None:
    """Dots of known classes, each class with its name outside of its dots."""
    clouds = [shown.known[shown.targets == number] for number in range(len(class_names))]
    middles = [np.median(cloud, axis=0) for cloud in clouds]
    centre = np.mean(middles, axis=0)
    for number, (name, cloud) in enumerate(zip(class_names, clouds, strict=True)):
        style: dict[str, Any] = {
            "marker": KNOWN_MARKERS[number % len(KNOWN_MARKERS)],
            "s": 11,
            "lw": 0.25,
            "edgecolors": "white",
        }
        colour = _pale(_colour(number), 0.6) if pale else _colour(number, DOTS)
        axes.scatter(*cloud.T, color=colour, label=name, zorder=2, **style)
        away = (middles[number] - centre) / max(float(np.linalg.norm(middles[number] - centre)), 1e-9)
        reach = np.quantile((cloud - middles[number]) @ away, 0.99)
        stroke = [withStroke(linewidth=2.5, foreground="white")]
        place = middles[number] + 1.08 * reach * away
        axes.annotate(
            name, place, 9 * away, textcoords="offset points", ha="center", va="center", fontsize=12, weight="bold",
            color=_colour(number, 0.6), path_effects=stroke, zorder=5,
        )  # fmt: skip


def _draw_novel(axes: Axes, embeddings: np.ndarray, number: int, name: str) -> None:
    """Marks of the novel class with this number, at float[N, 2]."""
    axes.scatter(*embeddings.T, label=name, zorder=3, **NOVEL_MARKERS[number % len(NOVEL_MARKERS)])


def _legend_below(figure: Figure, class_names: Sequence[str], novel: Mapping[str, dict[str, Any]], areas: bool) -> None:
    """One legend for all panels, below them: known classes, other marks by name, and what the areas are."""
    handles: list[Any] = [
        Line2D([], [], ls="", marker=KNOWN_MARKERS[number % len(KNOWN_MARKERS)], color=_colour(number, DOTS), ms=6,
               label=f"known: {name}")
        for number, name in enumerate(class_names)
    ]  # fmt: skip
    handles += [_mark(name, style) for name, style in novel.items()]
    if areas:
        handles.append(
            Patch(facecolor=UNKNOWN_FILL, hatch=UNKNOWN_HATCH, edgecolor=HATCH_COLOUR, label="taken as unknown")
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)


def _mark(name: str, style: Mapping[str, Any]) -> Line2D:
    edge = style.get("edgecolors", style.get("color"))
    face = style.get("facecolors", style.get("color"))
    return Line2D(
        [], [], ls="", marker=style["marker"], mfc=face, mec=edge, mew=style.get("linewidths"), ms=6.5, label=name
    )


def _colour(number: int, light: float = 1.0) -> tuple[float, ...]:
    """The colour of a known class, darker where `light` is below 1."""
    return tuple(light * part for part in to_rgb(KNOWN_COLOURS[number % len(KNOWN_COLOURS)]))


def _pale(colour: tuple[float, ...], strength: float) -> tuple[float, ...]:
    """The colour mixed with white; `strength` 1 leaves it as it is."""
    return tuple(strength * part + 1 - strength for part in colour)
