"""The scores of PROSER's selected trial on test images: their histogram, and macro-F1 over other known rates;
on development data what each rate costs."""

import numpy as np
from matplotlib.figure import Figure

from pipelines.reports.figures.style import BLUE, ORANGE, POINT_STYLES, SELECTED, entitle
from proser_core.data.splits.class_split import in_words
from proser_core.data.tasks import OpenSetTask
from proser_core.recognition.known_rates import RATES, KnownRates
from proser_core.recognition.metrics import macro_f1_curves
from proser_core.recognition.scoring import OpenSetScores
from proser_core.titles import PROSER


def over_known_rate(scores: OpenSetScores, task: OpenSetTask, title: str) -> Figure:
    """Macro-F1 of every setting against the share of known test images that a bias would keep, with PROSER's bias.
    Shows what the target rate costs and what another one would give; it chooses nothing."""
    targets = np.asarray(task.test.targets)
    known = np.sort(scores.scores[targets < task.num_known])
    rates = np.linspace(0.5, 1.0, 101)
    thresholds = known[np.ceil(rates * len(known)).astype(int) - 1]
    curves = macro_f1_curves(scores, targets, task.test_classes, task.split, thresholds)
    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for position, (setting, curve) in enumerate(curves.items()):
        style = POINT_STYLES[position % len(POINT_STYLES)]
        axes.plot(100 * rates, 100 * curve, label=in_words(setting), **style, markevery=(3 * position, 15))
    kept = float((known <= -scores.bias).mean())
    axes.axvline(100 * kept, color="black", lw=1.5, ls="--", label=f"calibrated bias {scores.bias:.2f}")
    axes.set(xlabel="known test images that stay known, %", ylabel="macro-F1 on test images, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    entitle(figure, f"{PROSER}: {title}")
    return figure


def known_rate_curve(rates: KnownRates, kept: float, title: str) -> Figure:
    """Unknown images found against known images kept, on validation images and unknown ones that were not tested on,
    with the rates of the table; `kept` is the share that the calibration keeps."""
    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(100 * rates.kept, 100 * rates.found, color=SELECTED, lw=2, drawstyle="steps-post")
    for rate in RATES:
        at, found = 100 * rates.kept_at(rate), 100 * rates.found_at(rate)
        axes.plot(at, found, "D", color=SELECTED, ms=6)
        axes.annotate(
            f"{100 * rate:g} %: {found:.1f}",
            (at, found),
            (-6, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    axes.axvline(100 * kept, color="black", lw=1.2, ls="--", label="calibrated")
    axes.set(xlabel="known validation images kept, %", ylabel="unknown images found, %", xlim=(50, 100.5))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    entitle(figure, f"{PROSER}{', proxy' if rates.of_proxy else ''}: {title}")
    return figure


def score_histogram(scores: OpenSetScores, formula: str, task: OpenSetTask, title: str) -> Figure:
    """Histogram of PROSER's score on known and unknown test images, with the threshold between them."""
    is_known = np.asarray(task.test.targets) < task.num_known
    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    axes = figure.add_subplot()
    low, high = np.percentile(scores.scores, [0.1, 99.9])
    edges = np.linspace(low, high, 61).tolist()
    for rows, label, colour, hatch in ((is_known, "known", BLUE, ""), (~is_known, "unknown", ORANGE, "//")):
        if not rows.any():
            continue
        axes.hist(
            scores.scores[rows], edges, density=True, alpha=0.6, color=colour, hatch=hatch, label=f"{label} classes"
        )
    axes.axvline(-scores.bias, color="black", lw=1.5, ls="--", label=f"threshold {-scores.bias:.2f}: known to the left")
    axes.set(xlabel=f"score: {formula}", ylabel="density of test images")
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    entitle(figure, f"{PROSER}: {title}")
    return figure
