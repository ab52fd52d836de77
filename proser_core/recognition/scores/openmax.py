"""OpenMax (Bendale and Boult 2016): logits that are revised by how far an image lies from the mean of each class.

As in the authors' code; departures are in docs/method-notes.md. CROSR does the same with features beside the logits.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from proser_core import titles
from proser_core.learning.tails import (
    ALPHA,
    TAIL_SIZE,
    Distance,
    check_training,
    euclidean,
    eucos,
    fit_tails,
    ranks,
    revise,
    w_scores,
)
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.scores.score_function import ScoreFunction, checked_targets


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
    formula = "minus the log of the largest known probability, revised"

    distance: ClassVar[Distance] = staticmethod(eucos)

    @classmethod
    def fit(cls, training: LogitTable, targets: np.ndarray, tail_size: int = TAIL_SIZE, alpha: int = ALPHA) -> Self:
        """Means and tails of the correctly classified training images, as `fit_tails`.

        Raises CalibrationError for a class without a training image, targets that are not one class per image, or
        logits that are not finite.
        """
        features, num_known = cls.features(training), training.known.shape[1]
        targets = checked_targets(targets, training, cls.name)
        check_training(features, targets, num_known, cls.name)
        correct = training.known_predictions() == targets
        tails = fit_tails(features, targets, correct, cls.distance, tail_size, method=cls.name)
        return cls(**tails._asdict(), alpha=min(alpha, num_known))

    @staticmethod
    def features(logits: LogitTable) -> np.ndarray:
        """What distances are taken of, float64[N, d]: the logits."""
        return logits.known.astype(np.float64)

    def of_table(self, logits: LogitTable) -> np.ndarray:
        revised, unknown = self.revise(logits)
        best = revised.max(axis=1)
        others = np.sort(revised, axis=1)[:, :-1]
        against = np.concatenate([others, unknown[:, None]], axis=1) - best[:, None]
        return np.logaddexp(0, np.logaddexp.reduce(against, axis=1))

    def revise(self, logits: LogitTable) -> tuple[np.ndarray, np.ndarray]:
        """Revised logits v_hat float64[N, K], and that of the unknown class, v_hat_0 float64[N] (alg. 2)."""
        known = logits.known.astype(np.float64)
        return revise(known, self._beyond(self.features(logits), known), self.alpha)

    def _beyond(self, features: np.ndarray, known: np.ndarray) -> np.ndarray:
        """w-scores float64[N, K] of the best `alpha` classes of each image; others have no weight, and are 0."""
        found, best = np.zeros_like(known), ranks(known) < self.alpha
        for k in np.flatnonzero(best.any(axis=0)).tolist():
            rows = np.flatnonzero(best[:, k])
            distances = type(self).distance(features[rows], self.means[k : k + 1])[:, 0]
            found[rows, k] = w_scores(distances, self.shapes[k], self.scales[k], self.starts[k])
        return found


@dataclass(frozen=True, eq=False)
class Crosr(OpenMax):
    """CROSR (Yoshihashi et al. 2019): OpenMax on Euclidean distances of `[y, z]`, logits and latent features together.

    z are the network's dummies; means are float64[K, K + d].
    """

    name = titles.CROSR
    source = "Yoshihashi et al. 2019"
    needs_dummies = True
    distance: ClassVar[Distance] = staticmethod(euclidean)

    @staticmethod
    def features(logits: LogitTable) -> np.ndarray:
        """Logits and latent features, float64[N, K + d]."""
        return np.concatenate([logits.known, logits.dummies], axis=1).astype(np.float64)
