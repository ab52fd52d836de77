"""Scores of the known logits alone: maximum softmax probability, the threshold of eq. 3, and maximum logit."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proser_core import titles
from proser_core.recognition.scores.score_function import ScoreFunction

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class MaxSoftmaxProbability(ScoreFunction):
    """`-log max_k softmax(W^T phi)_k`, float64[N].

    The logarithm keeps the order of the probabilities and tells apart those that round to 1.
    """

    name = titles.MSP
    source = "Hendrycks and Gimpel 2017"
    formula = "minus the log of the largest known probability"

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
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
    formula = "minus the best known logit"

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
        return -known.amax(1)
