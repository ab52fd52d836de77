"""Scores of networks whose dummies are errors of reconstruction."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from proser_core import titles
from proser_core.generative.gpd import best_threshold
from proser_core.generative.label_errors import right_and_wrong
from proser_core.recognition.scores.score_function import ScoreFunction

if TYPE_CHECKING:
    from torch import Tensor

    from proser_core.recognition.logits import LogitTable


@dataclass(frozen=True)
class SmallestError(ScoreFunction):
    """`min_k |x - G(z, k)|`, float32[N], of dummies [N, K]: the error under the class that suits an image best.

    `threshold` is the paper's own, fitted to the errors of training images: an image with a smaller one is known. The
    calibrated bias takes its place everywhere but in `own_rule`.
    """

    threshold: float

    name = titles.C2AE
    source = "Oza and Patel 2019"
    needs_dummies = True
    reads_training = True
    formula = "smallest error of reconstruction under a known class"

    @classmethod
    def fit(cls, training: "LogitTable", targets: np.ndarray) -> Self:
        return cls(best_threshold(*right_and_wrong(training.dummies, targets)))

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
        return dummies.amin(1)


def below_own_threshold(score: ScoreFunction, logits: "LogitTable") -> np.ndarray:
    """The paper's rule, bool[N, K+1]: the best known logit names an image whose smallest error is below the threshold,
    and every other is unknown."""
    assert isinstance(score, SmallestError), "the rule needs the threshold that this score holds"
    unknown = score(logits) >= score.threshold
    calls = np.where(unknown, logits.known.shape[1], logits.known_predictions())
    return calls[:, None] == np.arange(logits.known.shape[1] + 1)
