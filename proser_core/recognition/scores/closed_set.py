"""Scores of the known logits alone: maximum softmax probability, the threshold of eq:threshold, and maximum logit."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from proser_core import titles
from proser_core.recognition.logits import LogitTable
from proser_core.recognition.scores.score_function import ScoreFunction


@dataclass(frozen=True)
class MaxSoftmaxProbability(ScoreFunction):
    """`-log max_k softmax(W^T phi)_k`, float64[N].

    The logarithm keeps the order of the probabilities and tells apart those that round to 1.
    """

    name = titles.MSP
    source = "Hendrycks and Gimpel 2017"
    formula = "- log of the largest known probability"

    def __call__(self, logits: LogitTable) -> np.ndarray:
        known = logits.known.astype(np.float64)
        others = np.sort(known - known.max(axis=1, keepdims=True), axis=1)[:, :-1]
        return np.log1p(np.exp(others).sum(axis=1))

    def in_torch(self, known: Tensor, dummies: Tensor) -> Tensor:
        known = known.double()
        others = (known - known.amax(1, keepdim=True)).sort(1).values[:, :-1]
        return others.exp().sum(1).log1p()


@dataclass(frozen=True)
class MaxLogit(ScoreFunction):
    """`-max_k w_k^T phi(x)`, float32[N] (also Hendrycks et al. 2022).

    Of a network with placeholders too: they have then shaped the embedding, and take no part in the decision.
    """

    name = titles.MAX_LOGIT
    source = "Vaze et al. 2022"
    formula = "- best known logit"

    def __call__(self, logits: LogitTable) -> np.ndarray:
        return -logits.known.max(axis=1)

    def in_torch(self, known: Tensor, dummies: Tensor) -> Tensor:
        return -known.amax(1)
