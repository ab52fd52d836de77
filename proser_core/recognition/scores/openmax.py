"""OpenMax (Bendale and Boult 2016): logits that are revised by how far an image lies from the mean of each class.

As in the authors' code; departures are in docs/method-notes.md.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.optimize import brentq
from scipy.spatial.distance import cdist

from proser_core import titles
from proser_core.errors import CalibrationError
from proser_core.recognition.scores.score_function import ScoreFunction

if TYPE_CHECKING:
    from proser_core.recognition.logits import LogitTable

TAIL_SIZE = 20  # authors' code
ALPHA = 10  # authors' code; at most K
EUCLIDEAN_UNIT = 200  # authors' code
NO_SPREAD = 1e-9  # of the logarithms of a tail: the same distance, but for rounding


@dataclass(frozen=True, eq=False)
class OpenMax(ScoreFunction):
    """`-log max_k P(k)`, float64[N]: P of the known classes is the softmax of the revised logits and v_hat_0.

    The paper rejects an image below a threshold of this probability; the calibrated bias takes its place. Fitted are
    means float64[K, K], and of each class's Weibull the shape, the scale and where its tail starts, float64[K];
    `borrowed` are the classes whose own tail could not be fitted. There is no form in torch.
    """

    means: np.ndarray
    shapes: np.ndarray
    scales: np.ndarray
    starts: np.ndarray
    alpha: int
    borrowed: tuple[int, ...] = ()

    name = titles.OPENMAX
    source = "Bendale and Boult 2016"
    reads_training = True
    formula = "- log of the largest known probability, revised"

    @classmethod
    def fit(cls, training: "LogitTable", targets: np.ndarray, tail_size: int = TAIL_SIZE, alpha: int = ALPHA) -> Self:
        """Means and tails of the correctly classified training images (alg. 1).

        A class with fewer than three of them, or all at one distance from its mean, borrows the tail of all classes
        together, and is named in a warning; without any of them, its mean is over all its training images.
        Raises CalibrationError for a class without a training image, or logits that are not finite.
        """
        activations, num_known = training.known.astype(np.float64), training.known.shape[1]
        _check_training(activations, np.bincount(targets, minlength=num_known))
        correct = training.known_predictions() == targets
        rows = [np.flatnonzero((targets == k) & correct) for k in range(num_known)]
        means = np.stack([activations[own if len(own) else targets == k].mean(axis=0) for k, own in enumerate(rows)])
        distances = [eucos(activations[own], means[k : k + 1])[:, 0] for k, own in enumerate(rows)]
        tails = [_tail(own, tail_size) for own in distances]
        together = _tail(np.concatenate(distances), tail_size) or (1.0, np.inf, 0.0)  # a scale that revises nothing
        borrowed = tuple(k for k, tail in enumerate(tails) if tail is None)
        if borrowed:
            logging.getLogger(__name__).warning(
                "OpenMax: known class %s has fewer than three correctly classified training images at different "
                "distances from its mean; the tail of all classes replaces its own",
                ", ".join(map(str, borrowed)),
            )
        shapes, scales, starts = np.array([tail or together for tail in tails]).T
        return cls(means, shapes, scales, starts, min(alpha, num_known), borrowed)

    def __call__(self, logits: "LogitTable") -> np.ndarray:
        revised, unknown = self.revise(logits.known)
        best = revised.max(axis=1)
        others = np.sort(revised, axis=1)[:, :-1]
        against = np.concatenate([others, unknown[:, None]], axis=1) - best[:, None]
        return np.logaddexp(0, np.logaddexp.reduce(against, axis=1))

    def revise(self, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Revised logits v_hat float64[N, K], and that of the unknown class, v_hat_0 float64[N] (alg. 2).

        The best class is revised by the whole of its w-score, the next by (alpha - 1) / alpha of it, and so on. What
        is taken from them is v_hat_0: a negative logit rises, as published, and lowers it.
        """
        activations = known.astype(np.float64)
        ranks = np.argsort(np.argsort(-activations, axis=1, kind="stable"), axis=1)
        weights = np.clip(1 - ranks / self.alpha, 0, None)
        taken = activations * weights * self.w_scores(activations)
        return activations - taken, taken.sum(axis=1)

    def w_scores(self, activations: np.ndarray) -> np.ndarray:
        """Probability, float64[N, K], that a distance to a class's mean is beyond the class."""
        beyond = np.clip(eucos(activations, self.means) - self.starts + 1, 0, None)
        with np.errstate(over="ignore"):
            return -np.expm1(-((beyond / self.scales) ** self.shapes))


def _check_training(activations: np.ndarray, counts: np.ndarray) -> None:
    if not counts.all():
        raise CalibrationError(
            f"OpenMax needs a training image of each known class; there are 0 of class {counts.argmin()}"
        )
    broken = int((~np.isfinite(activations).all(axis=1)).sum())
    if broken:
        raise CalibrationError(
            f"OpenMax needs finite logits; those of {broken} of {len(activations)} training images are not: the "
            "network has diverged. Train it with a smaller learning rate"
        )


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
    """Shape, scale and start of the Weibull of the largest distances; None where they do not differ.

    As libMR has it: the tail is moved so that it begins at 1, and a distance is moved alike before it is scored.
    """
    tail = np.sort(distances)[-size:]
    if not len(tail):
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
