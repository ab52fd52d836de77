"""The scores of a model on test images: their histogram, and macro-F1 over other known rates; on development data what
each rate costs. `method` is the model's, whose name the titles have."""

from collections import defaultdict

import numpy as np
from matplotlib.figure import Figure

from pipelines.reports.figures.style import BLUE, ORANGE, POINT_STYLES, SELECTED, bin_edges, entitle, num_bins
from proser_core.data.splits.class_split import Setting, in_words
from proser_core.data.tasks import OpenSetTask
from proser_core.recognition.known_rates import RATES, KnownRates
from proser_core.recognition.metrics import open_set_macro_f1
from proser_core.recognition.scoring import OpenSetScores, accepted
from proser_core.titles import counted

LABEL = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
FAR = 0.2  # of an axis that may stay empty for the sake of a few images


def over_known_rate(scores: OpenSetScores, task: OpenSetTask, method: str, title: str) -> Figure:
    """Macro-F1 of every setting against the share of known test images that a threshold would keep, with the model's.
    Shows what the target rate costs and what another one would give; it chooses nothing."""
    targets = np.asarray(task.test.targets)
    known = np.sort(scores.scores[targets < task.num_known])
    thresholds = np.unique(np.quantile(known, np.linspace(0.5, 1.0, 101), method="inverted_cdf"))
    shares = np.searchsorted(known, thresholds, side="right") / len(known)
    curves = {setting: _macro_f1_at(thresholds, scores, task, setting) for setting in task.split.settings}
    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for position, (setting, curve) in enumerate(curves.items()):
        style = POINT_STYLES[position % len(POINT_STYLES)]
        every = (0.03 * position, 0.15) if len(shares) > 1 else None  # by distance, of which one point has none
        axes.plot(100 * shares, 100 * curve, label=in_words(setting), **style, markevery=every)
    kept = float(accepted(known, scores.bias).mean())
    axes.axvline(100 * kept, color="black", lw=1.5, ls="--", label=f"threshold {-scores.bias:z.2f}")
    axes.set(xlabel="known test images that stay known, %", ylabel="macro-F1 on test images, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    entitle(figure, f"{method}: {title}")
    return figure


def _macro_f1_at(thresholds: np.ndarray, scores: OpenSetScores, task: OpenSetTask, setting: Setting) -> np.ndarray:
    """float64[T]: macro-F1 of a test setting where each of T thresholds is the largest known score."""
    targets = np.asarray(task.test.targets)
    rows = (targets < task.num_known) | np.isin(task.test_classes, task.split.unknown_in(setting))
    guesses, values, targets = scores.known_predictions[rows], scores.scores[rows], targets[rows]
    called = (np.where(values <= threshold, guesses, task.num_known) for threshold in thresholds)
    return np.array([open_set_macro_f1(predictions, targets, task.num_known) for predictions in called])


def known_rate_curve(rates: KnownRates, kept: float, method: str, title: str) -> Figure:
    """Development unknowns found against known validation images kept, with the rates of the table, several of which
    may be one point; `kept` is the share that the model's threshold keeps, which is not that of a proxy."""
    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(100 * rates.kept, 100 * rates.found, color=SELECTED, lw=2, drawstyle="steps-pre")
    places = defaultdict[tuple[float, float], list[str]](list)
    for rate in RATES:
        places[100 * rates.kept_at(rate), 100 * rates.found_at(rate)].append(f"{100 * rate:g}")
    axes.plot(*zip(*places, strict=True), "D", color=SELECTED, ms=6, label="target rates", clip_on=False)
    for place, named in places.items():
        text, beside = f"{', '.join(named)} %", (-5, -11)
        axes.annotate(text, place, beside, textcoords="offset points", fontsize=8, bbox=LABEL, ha="right")
    if not rates.of_proxy:
        label = f"threshold of the model: keeps {100 * kept:.1f} %"
        axes.axvline(100 * kept, color="black", lw=1.2, ls="--", label=label)
    axes.set(xlabel="known validation images kept, %", ylabel="development unknowns found, %", xlim=(50, 100))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    entitle(figure, f"{method}{', proxy' if rates.of_proxy else ''}: {title}")
    return figure


def score_histogram(scores: OpenSetScores, formula: str, task: OpenSetTask, method: str, title: str) -> Figure:
    """Histogram of the model's score on known and unknown test images, with the threshold between them. The axis leaves
    out a few that lie far from all others, and the caption counts them."""
    is_known = np.asarray(task.test.targets) < task.num_known
    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    axes = figure.add_subplot()
    low, high = _shown(scores.scores)
    inside = (low <= scores.scores) & (scores.scores <= high)
    count = num_bins([int(each.sum()) for each in (is_known, ~is_known) if each.any()])
    edges = bin_edges(low, high, count, -scores.bias)
    for each, label, colour, hatch in ((is_known, "known", BLUE, ""), (~is_known, "unknown", ORANGE, "//")):
        rows = each & inside
        if not rows.any():
            continue
        axes.hist(
            scores.scores[rows], edges, density=True, alpha=0.6, color=colour, hatch=hatch, label=f"{label} classes"
        )
    axes.axvline(
        -scores.bias, color="black", lw=1.5, ls="--", label=f"threshold {-scores.bias:z.2f}: known to the left"
    )
    axes.set(xlabel=f"score: {formula}", ylabel="density of test images")
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    entitle(figure, f"{method}: {title}")
    if not inside.all():
        figure.supxlabel(f"Not drawn: {counted(int((~inside).sum()), 'image')} far out.", fontsize=8, x=0.01, ha="left")
    return figure


def _shown(scores: np.ndarray) -> tuple[float, float]:
    """The range of an axis: all scores, or to the 0.1 or 99.9 percentile where the last ones lie far beyond it."""
    if len(scores) < 10:
        return float(scores.min()), float(scores.max())
    low, high = np.percentile(scores, 0.1, method="higher"), np.percentile(scores, 99.9, method="lower")
    first, last, far = scores.min(), scores.max(), FAR * (high - low)
    return float(first if low - first <= far else low), float(last if last - high <= far else high)
