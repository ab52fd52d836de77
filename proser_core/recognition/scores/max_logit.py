"""Maximum logit (Vaze et al. 2022; Hendrycks et al. 2022)."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from proser_core import titles
from proser_core.recognition.logits import LogitTable
from proser_core.recognition.scores.score_function import ScoreFunction


@dataclass(frozen=True)
class MaxLogit(ScoreFunction):
    """`-max_k w_k^T phi(x)`, float32[N].

    Of a network with placeholders too: they have then shaped the embedding, and take no part in the decision.
    """

    name = titles.MAX_LOGIT
    source = "Vaze et al. 2022"
    formula = "- best known logit"

    def __call__(self, logits: LogitTable) -> np.ndarray:
        return -logits.known.max(axis=1)

    def in_torch(self, known: Tensor, dummies: Tensor) -> Tensor:
        return -known.amax(1)
