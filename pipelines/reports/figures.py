"""Figures of a run: readable in grey and for colour-blind eyes, as PNG and SVG."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from proser_core.data.splits.class_split import ClassSplit, in_words, setting_at
from proser_core.data.tasks import OpenSetTask
from proser_core.recognition.metrics import macro_f1_curves
from proser_core.recognition.scoring import OpenSetScores

matplotlib.use("Agg")
AXES = {  # fields that a search space may vary, as axes
    "beta": "beta, weight of the placeholder loss",
    "gamma": "gamma, weight of the mixture loss",
    "num_dummies": "C, dummy classifiers",
    "alpha": "alpha of the Beta distribution",
    "mixup": "where images are mixed",
    "epochs": "epochs of fine-tuning",
    "lr": "learning rate of fine-tuning",
}
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


def over_points(trials: list[dict[str, Any]], metric: str, selected: str) -> Figure:
    """A metric over the points of the search space: a heat map where two fields vary, else a dot a point."""
    points = [row for row in trials if row["objective"] == "proser"]
    varied = [name for name in AXES if len({row["params"][name] for row in points}) > 1]
    cells = {tuple(row["params"][name] for name in varied) for row in points}
    if len(varied) == 2 and len(cells) == len(points):  # else other fields vary too, and points would share a cell
        return _heat_map(points, metric, selected, *varied)
    return _dots(points, metric, selected)


def _heat_map(points: list[dict[str, Any]], metric: str, selected: str, vertical: str, horizontal: str) -> Figure:
    """Two fields as axes; the selected point is framed, a failed one says so."""
    rows, columns = (sorted({row["params"][name] for row in points}) for name in (vertical, horizontal))
    values = np.full((len(rows), len(columns)), np.nan)
    tried = np.zeros(values.shape, dtype=bool)
    figure, axes = _figure(1.6 + 0.9 * len(columns), 1.2 + 0.75 * len(rows))
    for row in points:
        y, x = rows.index(row["params"][vertical]), columns.index(row["params"][horizontal])
        tried[y, x] = True
        values[y, x] = 100 * row["metrics"].get(metric, np.nan)
        if row["key"] == selected:
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, lw=3, ec="#D55E00"))
    image = axes.imshow(values, cmap="viridis", origin="lower")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (y, x), value in np.ndenumerate(values):
        missing = "failed" if tried[y, x] else ""
        text = missing if np.isnan(value) else f"{value:.1f}"
        axes.text(x, y, text, ha="center", va="center", color="white" if value < middle else "black")
    axes.set_xticks(range(len(columns)), [_tick(value) for value in columns])
    axes.set_yticks(range(len(rows)), [_tick(value) for value in rows])
    axes.set(xlabel=AXES[horizontal], ylabel=AXES[vertical])
    axes.set_title(f"{_title(metric)}, %; framed: selected on development", fontsize=9)
    figure.colorbar(image, shrink=0.85)
    return figure


def _dots(points: list[dict[str, Any]], metric: str, selected: str) -> Figure:
    figure, axes = _figure(6.5, 1.2 + 0.3 * len(points))
    for position, row in enumerate(points):
        is_selected = row["key"] == selected
        value = 100 * row["metrics"].get(metric, np.nan)
        axes.plot(value, position, "D" if is_selected else "o", color=COLOURS[2 if is_selected else 1])
    axes.set_yticks(range(len(points)), [row["name"] for row in points], fontsize=8)
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    axes.set_title(f"{_title(metric)}, %; diamond: selected on development", fontsize=9)
    return figure


def _tick(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def against_openness(evaluation: dict[str, Any], split: ClassSplit, metric: str) -> Figure:
    """A metric of every method against the openness of the settings, which all have one."""
    openness = {setting: 100 * found for setting in split.settings if (found := split.openness(setting)) is not None}
    figure, axes = _figure(7.5, 4.2)
    for position, (name, method) in enumerate(evaluation["methods"].items()):
        settings = method["report"]["test"]["settings"]
        axes.plot(
            list(openness.values()),
            [100 * settings[str(setting)][metric] for setting in openness],
            marker=MARKERS[position % len(MARKERS)],
            color=COLOURS[position % len(COLOURS)],
            lw=2.5 if position == 0 else 1.2,
            label=name,
        )
    axes.set(xlabel="openness, %", ylabel=f"{LABELS[metric]} on test images, %")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def over_known_rate(scores: OpenSetScores, task: OpenSetTask) -> Figure:
    """Macro-F1 of every setting against the share of known test images that a bias would keep, with PROSER's bias.

    Shows what the target rate costs and what another one would give; it chooses nothing.
    """
    targets = np.asarray(task.test.targets)
    known = np.sort(scores.scores[targets < task.num_known])
    rates = np.linspace(0.5, 1.0, 101)
    thresholds = known[np.ceil(rates * len(known)).astype(int) - 1]
    curves = macro_f1_curves(scores, targets, task.test_classes, task.split, thresholds)
    figure, axes = _figure(6.5, 3.8)
    for position, (setting, curve) in enumerate(curves.items()):
        axes.plot(100 * rates, 100 * curve, color=COLOURS[position % len(COLOURS)], lw=1.5, label=in_words(setting))
    kept = float((known <= -scores.bias).mean())
    axes.axvline(100 * kept, color="black", lw=1.5, ls="--", label=f"calibrated bias {scores.bias:.2f}")
    axes.set(xlabel="known test images that stay known, %", ylabel="macro-F1 on test images, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def score_histogram(scores: OpenSetScores, formula: str, task: OpenSetTask) -> Figure:
    """Histogram of PROSER's score on known and unknown test images, with the threshold between them."""
    is_known = np.asarray(task.test.targets) < task.num_known
    figure, axes = _figure(6.5, 3.8)
    low, high = np.percentile(scores.scores, [0.1, 99.9])
    edges = np.linspace(low, high, 61).tolist()
    for rows, label, colour, hatch in ((is_known, "known", "#0072B2", ""), (~is_known, "unknown", "#E69F00", "//")):
        if not rows.any():
            continue
        axes.hist(
            scores.scores[rows], edges, density=True, alpha=0.6, color=colour, hatch=hatch, label=f"{label} classes"
        )
    axes.axvline(-scores.bias, color="black", lw=1.5, ls="--", label=f"threshold {-scores.bias:.2f}: known to the left")
    axes.set(xlabel=f"score: {formula}", ylabel="density of test images")
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def _title(metric: str) -> str:
    part, _, name = metric.rpartition("/")
    place = "development" if part == "dev" else in_words(setting_at(part), "test classes")
    return f"{LABELS[name]}, {place}"


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()
