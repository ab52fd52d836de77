"""Decisions as the authors of methods published them, where these are no threshold that keeps 95 % of known images."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from proser_core.recognition.scores import OpenMax, ScoreFunction

if TYPE_CHECKING:
    from proser_core.recognition.logits import LogitTable


def half_probability(score: ScoreFunction, logits: "LogitTable", facts: Mapping[str, Any]) -> np.ndarray:
    """Each class whose probability is at least one half, bool[N, K+1], as CROSR's released script counts.

    Unknown has the probability that OpenMax and CROSR give it; beside a softmax it has 1 less the largest of the known.
    """
    if isinstance(score, OpenMax):
        revised, unknown = score.revise(logits)
        return _softmax(np.concatenate([revised, unknown[:, None]], axis=1)) >= 0.5
    known = _softmax(logits.known.astype(np.float64))
    return np.concatenate([known, 1 - known.max(axis=1, keepdims=True)], axis=1) >= 0.5


def below_threshold(score: ScoreFunction, logits: "LogitTable", facts: Mapping[str, Any]) -> np.ndarray:
    """C2AE's rule, bool[N, K+1]: the best known logit names an image whose smallest error is below the threshold that
    was fitted to training images; every other is unknown."""
    num_known = logits.known.shape[1]
    named = np.where(score(logits) < facts["threshold"], logits.known_predictions(), num_known)
    return named[:, None] == np.arange(num_known + 1)


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
