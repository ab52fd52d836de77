"""Scores and decisions. Every method gives an image a score, larger for unknown.

One rule then serves all: `unknown_score = score + bias`, and at most 0 means known.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from proser_core.recognition.calibration import Calibration
from proser_core.recognition.logits import LogitTable

ScoreFunction = Callable[[LogitTable], np.ndarray]
"""From the logits of N images to a score each, float[N], larger for unknown, that depends on no other image."""


@dataclass(frozen=True)
class PlaceholderScore:
    """`w * max_c w_hat_c^T phi(x) - max_k w_k^T phi(x)`, float32[N], with w = `dummy_weight`.

    1 is the paper's gap. 0 is the maximum logit: placeholders have then shaped the embedding, and
    take no part in the decision.
    """

    dummy_weight: float

    def __call__(self, logits: LogitTable) -> np.ndarray:
        known = logits.known.max(axis=1)
        return self.dummy_weight * logits.dummies.max(axis=1) - known if self.dummy_weight else -known

    @property
    def formula(self) -> str:
        """In words, for an axis."""
        weight = "" if self.dummy_weight == 1 else f"{self.dummy_weight:g} x "
        return (f"{weight}best dummy logit " if self.dummy_weight else "") + "- best known logit"


placeholder_gap = PlaceholderScore(1.0)
"""PROSER's score as the paper has it (sec. Calibration)."""


def log_unknown_probability(logits: LogitTable) -> np.ndarray:
    """PROSER's second score: `log softmax([W^T phi, max_c w_hat_c^T phi])_K`, float64[N]."""
    augmented = np.concatenate([logits.known, logits.dummies.max(axis=1, keepdims=True)], axis=1).astype(np.float64)
    return augmented[:, -1] - np.logaddexp.reduce(augmented, axis=1)


@dataclass(frozen=True)
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
        """bool[N]: images that are called known. A tie goes to the known class."""
        return self.scores <= -self.bias

    @property
    def predictions(self) -> np.ndarray:
        """int64[N]: 0..K-1, or K for unknown."""
        return np.where(self.accepted, self.known_predictions, self.num_known)


def score(logits: LogitTable, score_function: ScoreFunction, calibration: Calibration) -> OpenSetScores:
    """Apply a frozen calibration to the logits of any images."""
    return OpenSetScores(
        known_predictions=logits.known_predictions(),
        scores=score_function(logits),
        num_known=logits.known.shape[1],
        bias=calibration.bias,
    )


def unknown_probabilities(logits: LogitTable, score_function: ScoreFunction, bias: float) -> np.ndarray:
    """Softmax of `[W^T phi, max_k w_k^T phi + score + bias]`, float64[N, K+1]; the last column is unknown.

    Its largest entry is the decision. With the paper's gap the last logit is the largest dummy's, plus the bias.
    """
    known = logits.known.astype(np.float64)
    unknown = known.max(axis=1) + (score_function(logits).astype(np.float64) + bias)  # a tie adds exactly 0
    augmented = np.concatenate([known, unknown[:, None]], axis=1)
    powers = np.exp(augmented - augmented.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
