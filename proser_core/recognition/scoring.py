"""Margins and decisions. Every method gives an image a margin, larger for known.

One rule then serves all: known if and only if margin >= bias, `unknown_score = bias - margin`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from proser_core.recognition.calibration import Calibration
from proser_core.recognition.logits import LogitTable

Margin = Callable[[LogitTable], np.ndarray]


@dataclass(frozen=True)
class PlaceholderMargin:
    """`max_k w_k^T phi(x) - w * max_c w_hat_c^T phi(x)`, float32[N], with w = `dummy_weight`.

    1 is the paper's gap. 0 is the maximum logit: placeholders have then shaped the embedding, and
    take no part in the decision.
    """

    dummy_weight: float

    def __call__(self, logits: LogitTable) -> np.ndarray:
        known = logits.known.max(axis=1)
        return known - self.dummy_weight * logits.dummies.max(axis=1) if self.dummy_weight else known

    @property
    def formula(self) -> str:
        """In words, for an axis."""
        weight = "" if self.dummy_weight == 1 else f"{self.dummy_weight:g} x "
        return "best known logit" + (f" - {weight}best dummy logit" if self.dummy_weight else "")


placeholder_gap = PlaceholderMargin(1.0)
"""PROSER's margin as the paper has it (sec. Calibration)."""


def unknown_surprisal(logits: LogitTable) -> np.ndarray:
    """PROSER's second score: `-log softmax([W^T phi, max_c w_hat_c^T phi])_K`, float64[N].

    Smaller where the unknown class has more probability.
    """
    augmented = np.concatenate([logits.known, logits.dummies.max(axis=1, keepdims=True)], axis=1).astype(np.float64)
    return np.logaddexp.reduce(augmented, axis=1) - augmented[:, -1]


@dataclass(frozen=True)
class OpenSetScores:
    """Decisions on N images: `known_predictions` in 0..K-1, and `margins` with their calibration."""

    known_predictions: np.ndarray
    margins: np.ndarray
    num_known: int
    bias: float

    @property
    def unknown_scores(self) -> np.ndarray:
        """Larger for unknown; at most 0 means known. The bias shifts it and leaves AUC alone."""
        return self.bias - self.margins

    @property
    def predictions(self) -> np.ndarray:
        """int64[N]: 0..K-1, or K for unknown. A tie goes to the known class."""
        return np.where(self.margins >= self.bias, self.known_predictions, self.num_known)


def score(logits: LogitTable, margin: Margin, calibration: Calibration) -> OpenSetScores:
    """Apply a frozen calibration to the logits of any images."""
    return OpenSetScores(
        known_predictions=logits.known_predictions(),
        margins=margin(logits),
        num_known=logits.known.shape[1],
        bias=calibration.bias,
    )


def unknown_probabilities(logits: LogitTable, margin: Margin, bias: float) -> np.ndarray:
    """Softmax of `[W^T phi, max_k w_k^T phi - margin + bias]`, float64[N, K+1]; the last column is unknown.

    Its largest entry is the decision. With the paper's gap the last logit is the largest dummy's, plus the bias.
    """
    known = logits.known.astype(np.float64)
    unknown = known.max(axis=1) + (bias - margin(logits).astype(np.float64))  # a tie adds exactly 0
    augmented = np.concatenate([known, unknown[:, None]], axis=1)
    powers = np.exp(augmented - augmented.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
