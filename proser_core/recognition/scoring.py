"""Decisions. Every method gives an image a score, larger for unknown.

One rule then serves all: `unknown_score = score + bias`, and at most 0 means known.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import softmax

from proser_core.errors import DataError
from proser_core.recognition.calibration import Calibration
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.scores import ScoreFunction

SMALLEST_MARGIN = 4 * float(np.finfo(np.float64).eps)
"""The least by which an unknown image's last logit exceeds its best one, relative to it where that is above 1: less
would be rounded away."""


def accepted(scores: np.ndarray, bias: float) -> np.ndarray:
    """bool[N]: images that are called known, by their scores float[N]. A tie goes to the known class."""
    return scores <= -bias


@dataclass(frozen=True, eq=False)  # arrays have no one truth value
class OpenSetScores:
    """Decisions on N images: `known_predictions` int64[N] in 0..K-1, and `scores` float[N] with their calibration."""

    known_predictions: np.ndarray
    scores: np.ndarray
    num_known: int
    bias: float

    @property
    def unknown_scores(self) -> np.ndarray:
        """float[N], larger for unknown; at most 0 means known. The bias shifts them and leaves AUROC alone."""
        return self.scores + self.bias

    @property
    def accepted(self) -> np.ndarray:
        """bool[N]: images that are called known."""
        return accepted(self.scores, self.bias)

    @property
    def predictions(self) -> np.ndarray:
        """int64[N]: 0..K-1, or K for unknown."""
        return np.where(self.accepted, self.known_predictions, self.num_known)

    def save(self, path: Path) -> None:
        """Write it as .npz."""
        np.savez(path, allow_pickle=False, **vars(self))

    @classmethod
    def load(cls, path: Path) -> "OpenSetScores":
        """Inverse of `save`."""
        with np.load(path) as arrays:
            numbers = int(arrays["num_known"]), float(arrays["bias"])
            return cls(arrays["known_predictions"], arrays["scores"], *numbers)


def score(logits: LogitTable, score_function: ScoreFunction, calibration: Calibration) -> OpenSetScores:
    """Apply a frozen calibration to the logits of any images. Raises ConfigError for a score of embeddings that are not
    there, DataError for logits or scores that are NaN."""
    found = decide(logits, score_function(logits), calibration)
    best = logits.known[np.arange(len(logits)), found.known_predictions]  # NaN where any known logit is
    bad = int((np.isnan(best) | np.isnan(found.scores)).sum())
    if bad:
        raise DataError(
            f"the logits of {bad} of {len(logits)} images give NaN, which decides nothing; need finite logits: check "
            "the network and its weights"
        )
    return found


def decide(logits: LogitTable, scores: np.ndarray, calibration: Calibration) -> OpenSetScores:
    """Apply a frozen calibration to the scores float[N] of these logits."""
    return OpenSetScores(
        known_predictions=logits.known_predictions(),
        scores=scores,
        num_known=logits.known.shape[1],
        bias=calibration.bias,
    )


def unknown_probabilities(logits: LogitTable, scores: np.ndarray, bias: float) -> np.ndarray:
    """Softmax of `[W^T phi, max_k w_k^T phi + score + bias]`, float64[N, K+1], from the scores [N] of these logits; the
    last column is unknown.

    Its largest entry is the decision. With the paper's gap the last logit is the largest dummy's, plus the bias.
    """
    known = logits.known.astype(np.float64)
    best, margin = known.max(axis=1), scores.astype(np.float64) + bias  # a tie has exactly 0
    margin = np.where(margin > 0, np.maximum(margin, SMALLEST_MARGIN * np.maximum(np.abs(best), 1.0)), margin)
    augmented = np.concatenate([known, (best + margin)[:, None]], axis=1)
    return softmax(augmented, axis=1)
