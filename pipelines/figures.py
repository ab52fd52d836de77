"""Figures of a run: readable in grey and for colour-blind eyes, as PNG and SVG."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from proser_core.data.splits import ClassSplit
from proser_core.data.tasks import OpenSetTask

matplotlib.use("Agg")
LABELS = {"macro_f1": "macro-F1", "auroc": "AUC"}
# Okabe and Ito's colours, which differ in lightness too
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
MARKERS = "osD^vPX*"


def save(figure: Figure, stem: Path) -> None:
    """Write PNG and SVG, free of dates so that equal results give equal files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "proser"}):
        figure.savefig(stem.with_suffix(".png"), dpi=150, metadata={"Software": None})
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})


def heat_map(trials: list[dict[str, Any]], metric: str, selected: str) -> Figure:
    """A metric over the (beta, gamma) grid; the selected point is framed, a failed one is empty."""
    grid = [row for row in trials if row["objective"] == "proser"]
    betas = sorted({row["params"]["beta"] for row in grid})
    gammas = sorted({row["params"]["gamma"] for row in grid})
    values = np.full((len(betas), len(gammas)), np.nan)
    figure, axes = _figure(1.6 + 0.9 * len(gammas), 1.2 + 0.75 * len(betas))
    for row in grid:
        cell = betas.index(row["params"]["beta"]), gammas.index(row["params"]["gamma"])
        values[cell] = row["metrics"].get(metric, np.nan)
        if row["key"] == selected:
            axes.add_patch(
                matplotlib.patches.Rectangle((cell[1] - 0.5, cell[0] - 0.5), 1, 1, fill=False, lw=3, ec="#D55E00")
            )
    image = axes.imshow(100 * values, cmap="viridis", origin="lower")
    middle = 50 * (np.nanmin(values) + np.nanmax(values))
    for (y, x), value in np.ndenumerate(100 * values):
        text = "failed" if np.isnan(value) else f"{value:.1f}"
        axes.text(x, y, text, ha="center", va="center", color="white" if value < middle else "black")
    axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    axes.set_yticks(range(len(betas)), [f"{beta:g}" for beta in betas])
    axes.set(xlabel="gamma, weight of the mixture loss", ylabel="beta, weight of the placeholder loss")
    axes.set_title(f"{_title(metric)}, %; framed: selected on development", fontsize=9)
    figure.colorbar(image, shrink=0.85)
    return figure


def against_openness(evaluation: dict[str, Any], split: ClassSplit, metric: str) -> Figure:
    """A metric of every method against the openness of the setting."""
    figure, axes = _figure(7.5, 4.2)
    for position, (name, method) in enumerate(evaluation["methods"].items()):
        settings = method["report"]["test"]["settings"]
        axes.plot(
            [100 * split.openness(setting) for setting in split.settings],
            [100 * settings[str(setting)][metric] for setting in split.settings],
            marker=MARKERS[position % len(MARKERS)],
            color=COLOURS[position % len(COLOURS)],
            lw=2.5 if position == 0 else 1.2,
            label=name,
        )
    axes.set(xlabel="openness, %", ylabel=f"{LABELS[metric]} on test images, %")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def margins(test_margins: np.ndarray, task: OpenSetTask, bias: float) -> Figure:
    """Histogram of PROSER's margin on known and unknown test images, with the bias that parts them."""
    is_known = np.asarray(task.test.targets) < task.num_known
    figure, axes = _figure(6.5, 3.8)
    low, high = np.percentile(test_margins, [0.1, 99.9])
    edges = np.linspace(low, high, 61).tolist()
    for rows, label, colour, hatch in ((is_known, "known", "#0072B2", ""), (~is_known, "unknown", "#E69F00", "//")):
        axes.hist(
            test_margins[rows], edges, density=True, alpha=0.6, color=colour, hatch=hatch, label=f"{label} classes"
        )
    axes.axvline(bias, color="black", lw=1.5, ls="--", label=f"bias {bias:.2f}: known to its right")
    axes.set(xlabel="margin: best known logit - best dummy logit", ylabel="density of test images")
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def _title(metric: str) -> str:
    part, _, name = metric.rpartition("/")
    where = "development" if part == "dev" else f"{part.removeprefix('test/unknown_')} unknown test classes"
    return f"{LABELS[name]}, {where}"


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()
