"""The bootstrap over known and over unknown images (Efron 1979): intervals of macro-F1 and AUROC."""

from collections.abc import Iterator, Sequence

import numpy as np

from proser_core.recognition.validation_scores import ValidationScores
from proser_core.titles import counted

RESAMPLES = 2_000
CONFIDENCE = 0.95
LEAST = 20
"""Known and unknown images each, at least: the interval of fewer is far too narrow."""


def too_few(is_known: np.ndarray) -> str:
    """Why an interval by the bootstrap over these images says nothing; empty where there are enough."""
    known, unknown = int(is_known.sum()), int((~is_known).sum())
    counts = f"{counted(known, 'known image')} and {unknown} unknown"
    return "" if min(known, unknown) >= LEAST else f"{counts} are too few for an interval, which needs {LEAST} of each"


def intervals(scores: ValidationScores, bias: float) -> dict[str, tuple[float, float]]:
    """Where each metric lies with 95 % confidence, by the bootstrap over known and over unknown images."""
    drawn = [scores.select(rows).metrics(bias) for rows in resamples(scores.is_known)]
    return {name: ends([each[name] for each in drawn]) for name in drawn[0]}


def resamples(is_known: np.ndarray) -> Iterator[np.ndarray]:
    """As many known and unknown images as there are, drawn with replacement; the same draws each time."""
    generator = np.random.default_rng(0)
    groups = [group for group in (np.flatnonzero(is_known), np.flatnonzero(~is_known)) if len(group)]
    for _ in range(RESAMPLES):
        yield np.concatenate([group[generator.integers(len(group), size=len(group))] for group in groups])


def ends(values: Sequence[float]) -> tuple[float, float]:
    """Ends of the 95 % interval, from a metric of each resample."""
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)
