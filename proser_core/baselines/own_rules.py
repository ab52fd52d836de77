"""Decisions as the authors of methods published them, where these are no threshold that keeps 95 % of known images."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from proser_core.recognition.scores import OpenMax, ScoreFunction

if TYPE_CHECKING:
    from proser_core.recognition.logit_tables import LogitTable


def half_probability(score: ScoreFunction, logits: "LogitTable", facts: Mapping[str, Any]) -> np.ndarray:
    """Each class whose probability is at least one half, bool[N, K+1], as CROSR's released script counts.

    Unknown has the probability that OpenMax and CROSR give it; beside a softmax it has 1 less the largest of the known.
    """
    if isinstance(score, OpenMax):
        revised, unknown = score.revise(logits)
        probabilities: np.ndarray = softmax(np.concatenate([revised, unknown[:, None]], axis=1), axis=1)
    else:
        known = softmax(logits.known.astype(np.float64), axis=1)
        probabilities = np.concatenate([known, 1 - known.max(axis=1, keepdims=True)], axis=1)
    return probabilities >= 0.5


def below_threshold(score: ScoreFunction, logits: "LogitTable", facts: Mapping[str, Any]) -> np.ndarray:
    """C2AE's rule, bool[N, K+1]: the best known logit names an image whose smallest error is below the threshold that
    was fitted to training images; every other is unknown."""
    num_known = logits.known.shape[1]
    named = np.where(score(logits) < facts["threshold"], logits.known_predictions(), num_known)
    return named[:, None] == np.arange(num_known + 1)
