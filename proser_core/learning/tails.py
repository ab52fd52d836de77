"""How far training images lie from the mean of their class: Weibull tails of any features and any distance (OpenMax).

As in the code of Bendale and Boult (2016); departures are in docs/method-notes.md. NumPy and SciPy alone.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.spatial.distance import cdist

from proser_core.errors import CalibrationError
from proser_core.titles import first_names

TAIL_SIZE = 20  # authors' code
ALPHA = 10  # authors' code; at most K
EUCLIDEAN_UNIT = 200  # authors' code
FEWEST = 3  # distances that a tail is fitted to
NO_SPREAD = 1e-9  # of the logarithms of a tail: the same distance, but for rounding
Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From features float64[N, d] and means float64[M, d] to float64[N, M]."""


class Tails(NamedTuple):
    """The tails of K classes: means float64[K, d] of the features, and of each Weibull the shape, the scale and where
    the tail starts, float64[K]; `borrowed` are the classes whose own tail could not be fitted."""

    means: np.ndarray
    shapes: np.ndarray
    scales: np.ndarray
    starts: np.ndarray
    borrowed: tuple[int, ...]


def fit_tails(
    features: np.ndarray,
    targets: np.ndarray,
    correct: np.ndarray,
    distance: Distance,
    tail_size: int = TAIL_SIZE,
    *,
    method: str = "OpenMax",
) -> Tails:
    """Means and tails of the correctly classified images (alg. 1 of OpenMax).

    features float64[N, d], targets int64[N] in 0..K-1, of which each is there, correct bool[N]. A class with fewer than
    three correct images, or all at one distance from its mean, borrows the tail of all classes together, and is named
    in a warning; without any of them, its mean is over all its images.
    """
    classes = range(int(targets.max()) + 1)
    rows = [np.flatnonzero((targets == k) & correct) for k in classes]
    means = np.stack([features[own if len(own) else targets == k].mean(axis=0) for k, own in enumerate(rows)])
    distances = [distance(features[own], means[k : k + 1])[:, 0] for k, own in enumerate(rows)]
    tails = [_tail(own, tail_size) for own in distances]
    together = _tail(np.concatenate(distances), tail_size) or (1.0, np.inf, 0.0)  # a scale that revises nothing
    borrowed = tuple(k for k, tail in enumerate(tails) if tail is None)
    if borrowed:
        logging.getLogger(__name__).warning(
            "%s: fewer than three training images of known class %s are classified correctly, at different distances "
            "from the mean; the tail of all classes replaces its own",
            method,
            first_names([str(each) for each in borrowed]),
        )
    shapes, scales, starts = np.array([tail or together for tail in tails]).T
    return Tails(means, shapes, scales, starts, borrowed)


def w_scores(distances: np.ndarray, shapes: np.ndarray, scales: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Probability, float64[N, K] or [N], that distances to the means of the classes, or of one, are beyond them."""
    beyond = np.clip(distances - starts + 1, 0, None)
    with np.errstate(over="ignore"):
        return -np.expm1(-((beyond / scales) ** shapes))


def revise(activations: np.ndarray, beyond: np.ndarray, alpha: int) -> tuple[np.ndarray, np.ndarray]:
    """Revised logits v_hat float64[N, K], and that of the unknown class, v_hat_0 float64[N] (alg. 2 of OpenMax).

    `beyond` float64[N, K] are w-scores. The best class is revised by the whole of its w-score, the next by
    (alpha - 1) / alpha of it, and so on. What is taken from them is v_hat_0: a negative logit rises, as published, and
    lowers it.
    """
    weights = np.clip(1 - ranks(activations) / alpha, 0, None)
    taken = activations * weights * beyond
    return activations - taken, taken.sum(axis=1)


def ranks(activations: np.ndarray) -> np.ndarray:
    """int64[N, K]: the place of each class among those of its image, 0 for the largest of float64[N, K]."""
    return np.argsort(np.argsort(-activations, axis=1, kind="stable"), axis=1)


def check_training(features: np.ndarray, targets: np.ndarray, num_known: int, method: str) -> None:
    """Raises CalibrationError for a class without an image, or features float64[N, d] that are not finite."""
    counts = np.bincount(targets, minlength=num_known)
    if not counts.all():
        raise CalibrationError(
            f"{method} needs a training image of each known class; there are 0 of class {counts.argmin()}"
        )
    broken = int((~np.isfinite(features).all(axis=1)).sum())
    if broken:
        raise CalibrationError(
            f"{method} needs finite logits; those of {broken} of {len(features)} training images are not: the "
            "network has diverged. Train it with a smaller learning rate"
        )


def euclidean(features: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Euclidean distances, float64[N, M], pair by pair: a product of matrices would round by the size of the batch."""
    return cdist(features, means)


def eucos(activations: np.ndarray, means: np.ndarray) -> np.ndarray:
    """The paper's distance, float64[N, K]: Euclidean / 200 + cosine, which is 1/2 from a vector of zeros.

    The cosine is taken by unit vectors, pair by pair: a product of matrices would round by the size of the batch.
    """
    cosine = cdist(_units(activations), _units(means), "sqeuclidean") / 2
    return cdist(activations, means) / EUCLIDEAN_UNIT + cosine


def _units(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def _tail(distances: np.ndarray, size: int) -> tuple[float, float, float] | None:
    """Shape, scale and start of the Weibull of the largest distances; None of fewer than three, or of equal ones.

    As libMR has it: the tail is moved so that it begins at 1, and a distance is moved alike before it is scored.
    """
    tail = np.sort(distances)[-size:]
    if len(tail) < FEWEST:
        return None
    fitted = fit_weibull(tail - tail[0] + 1)
    return None if fitted is None else (*fitted, float(tail[0]))


def fit_weibull(values: np.ndarray) -> tuple[float, float] | None:
    """Shape and scale that are most likely for positive values, float64[n]; None where all are the same.

    The likelihood's derivative in the shape has one root, which is bracketed and found to the last digits; a search
    for the maximum, as in `scipy.stats.weibull_min.fit`, ends some 1e-4 beside it.
    """
    logs = np.log(values)
    top, mean = float(logs.max()), float(logs.mean())
    if top - mean < NO_SPREAD:
        return None

    def powers(shape: float) -> np.ndarray:
        return np.exp(shape * (logs - top))

    def slope(shape: float) -> float:
        weights = powers(shape)
        return float(weights @ logs / weights.sum()) - 1 / shape - mean

    low = 0.5 / (top - mean)  # the slope is below -(top - mean) there
    high = 2 * low
    while slope(high) <= 0:
        high *= 2
    shape = float(brentq(slope, low, high, rtol=1e-12))
    return shape, float(np.exp(top + np.log(powers(shape).mean()) / shape))
