"""Drift: whether a model still scores new, unlabelled images as it scored the validation images of its training."""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import ks_2samp, kstwobign

from pipelines.console import shown
from pipelines.reports.figures.style import VERMILLION, bin_edges, drawable, entitle, num_bins
from proser_core.recognition.class_report import wilson_interval

LEVEL = 0.01  # of significance: the probability of a false alarm on images of the same kind


@dataclass(frozen=True)
class Drift:
    """Unknown share of `count` new images with its 95 % interval (Wilson), and the one expected from the `validation`
    images; the Kolmogorov-Smirnov distance between their scores, with its p value."""

    count: int
    validation: int
    unknown_share: float
    interval: tuple[float, float]
    expected_share: float
    distance: float
    p_value: float

    @property
    def drifted(self) -> bool:
        """Whether the scores differ significantly."""
        return self.p_value < LEVEL

    @property
    def least_shown(self) -> float:
        """About the distance, of 1 at most, from which on so many scores differ significantly: by the limit of the
        test's distribution."""
        return min(1.0, float(kstwobign.isf(LEVEL)) * math.sqrt(1 / self.count + 1 / self.validation))


def measure_drift(new: np.ndarray, validation: np.ndarray) -> Drift:
    """Compare unknown scores float[N] of new images, above 0 for unknown, with float[M] of the validation images, which
    are all of known classes."""
    unknown = int((new > 0).sum())
    test = ks_2samp(new, validation)
    return Drift(
        count=len(new),
        validation=len(validation),
        unknown_share=unknown / len(new),
        interval=wilson_interval(unknown, len(new)),
        expected_share=float((validation > 0).mean()),
        distance=float(test.statistic),
        p_value=float(test.pvalue),
    )


def drift_figure(new: np.ndarray, validation: np.ndarray, formula: str, title: str) -> Figure:
    """Histograms of both distributions of unknown scores, which are `formula` plus the bias, and the threshold. `title`
    is the model's."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    entitle(figure, f"{drawable(shown(title))}: scores of new images against those of its validation images")
    both = np.concatenate([new, validation])
    bins = bin_edges(float(both.min()), float(both.max()), num_bins([len(new), len(validation)]), 0.0)
    label = f"{len(new):,} new images"
    axes.hist(validation, bins, density=True, color="0.75", label=f"{len(validation):,} validation images")
    axes.hist(new, bins, density=True, histtype="step", color=VERMILLION, linewidth=1.8, label=label)
    axes.axvline(0, color="0.2", linestyle="--", linewidth=1, label="threshold: unknown to the right")
    axes.set_xlabel(f"unknown score: {formula} + bias")
    axes.set_ylabel("density")
    axes.legend(frameon=False)
    return figure
