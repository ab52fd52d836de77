"""Scores that are made for one network of a method's own: OSRCI, G-OpenMax and C2AE."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proser_core import titles
from proser_core.recognition.scores.score_function import ScoreFunction

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ZeroLogitGap(ScoreFunction):
    """`p(K+1) - max_k p_k` of the softmax of the known logits and a 0, float64[N] in -1..1.

    Of OSRCI, whose K+1-th class has no weights. With m the largest logit, (1 - exp m) / (1 + sum_k exp l_k).
    """

    name = "p(unknown) - p(known)"
    source = "Neal et al. 2018"
    formula = "probability of unknown - largest known probability"

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
        import torch  # not for `proser list`

        logits = torch.nn.functional.pad(known.double(), (0, 1))
        probabilities = logits.softmax(1)
        return probabilities[:, -1] - probabilities[:, :-1].amax(1)


@dataclass(frozen=True)
class FinishedScore(ScoreFunction):
    """The first dummy, float32[N]: of a network such as G-OpenMax's, whose dummy is its score already."""

    name = "network's own score"
    source = "Ge et al. 2017"
    needs_dummies = True
    formula = "score that the network itself gives"

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
        return dummies[:, 0]


@dataclass(frozen=True)
class SmallestError(ScoreFunction):
    """`min_k |x - G(z, k)|`, float32[N], of dummies [N, K]: the error under the class that suits an image best."""

    name = titles.C2AE
    source = "Oza and Patel 2019"
    needs_dummies = True
    formula = "smallest error of reconstruction under a known class"

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
        return dummies.amin(1)
