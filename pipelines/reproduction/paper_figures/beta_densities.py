"""Densities of the mixing ratio, Beta(alpha, alpha) (supplement, fig. Kernel density estimation of Beta)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import betaln

from pipelines.reports.figures.style import BLUE

TOP = 3.2  # of the axis of densities; below 1, alpha has a density without bound at 0 and 1
MOST_COLUMNS = 4


def density(alpha: float, ratios: np.ndarray) -> np.ndarray:
    """`lam^(alpha-1) (1-lam)^(alpha-1) / B(alpha, alpha)` at `ratios` float[N] inside 0..1."""
    return np.exp((alpha - 1) * (np.log(ratios) + np.log1p(-ratios)) - betaln(alpha, alpha))


def beta_densities(alphas: Sequence[float]) -> Figure:
    """A panel for each alpha, on the same axes, with the others thin behind it. Exact, not an estimate from draws."""
    columns = min(len(alphas), MOST_COLUMNS)
    rows = -(-len(alphas) // columns)
    figure = Figure(figsize=(0.6 + 2.5 * columns, 0.5 + 2.5 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes in panels.flat[len(alphas) :]:
        axes.set_visible(False)
    for axes, alpha in zip(panels.flat, alphas, strict=False):
        _panel(axes, alpha, alphas)
    for axes in panels[:, 0]:
        axes.set_ylabel("density")
    figure.supxlabel("mixing ratio lambda, drawn from Beta(alpha, alpha)", fontsize=10)
    return figure


def _panel(axes: Axes, alpha: float, alphas: Sequence[float]) -> None:
    ratios = np.linspace(0, 1, 1003)[1:-1]
    for other in alphas:
        if other != alpha:
            axes.plot(ratios, density(other, ratios), color="#bbbbbb", lw=0.9, zorder=1)
    heights = density(alpha, ratios)
    axes.fill_between(ratios, heights, color=BLUE, alpha=0.22, lw=0, zorder=2)
    axes.plot(ratios, heights, color=BLUE, lw=2.4, zorder=3, label=f"{alpha:g}")
    axes.set_title(f"alpha = {alpha:g}", fontsize=11)
    axes.text(0.5, 0.965, _where(alpha), transform=axes.transAxes, ha="center", va="top", fontsize=8.5)
    axes.set(xlim=(0, 1), ylim=(0, TOP), yticks=[0, 1, 2, 3])
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.set_xticks([0.25, 0.75], minor=True)
    axes.grid(alpha=0.3)


def _where(alpha: float) -> str:
    """Where its ratios lie."""
    if alpha == 1:
        return "every ratio alike"
    return "most ratios near 0 or 1" if alpha < 1 else "most ratios near one half"
