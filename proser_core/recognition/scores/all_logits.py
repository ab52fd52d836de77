"""Scores of all known logits together."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proser_core import titles
from proser_core.recognition.scores.score_function import ScoreFunction

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Energy(ScoreFunction):
    """`-log sum_k exp(w_k^T phi(x))`, float64[N]: the free energy at temperature 1."""

    name = titles.ENERGY
    source = "Liu et al. 2020"
    formula = "minus the log of the sum of exponentials of the known logits"

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
        return -known.double().logsumexp(1)


@dataclass(frozen=True)
class GeneralizedEntropy(ScoreFunction):
    """`sum_k (p_k (1 - p_k))^gamma` over the M = `top` largest known probabilities, float64[N].

    gamma is the paper's. M is 10, or all classes where there are fewer (paper: 100 of ImageNet's 1000). `1 - p` is
    computed from the other logits: rounded to 0 it would hide how sure a network is.
    """

    gamma: float = 0.1
    top: int = 10

    name = titles.GEN
    source = "Liu et al. 2023"

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
        import torch  # not for `proser list`

        logits = known.double().sort(1, descending=True).values
        log_p = logits - logits.logsumexp(1, keepdim=True)
        first = log_p[:, 1:].logsumexp(1, keepdim=True)
        others = torch.log1p(-log_p[:, 1:].exp())  # each is at most one half
        return (self.gamma * (log_p + torch.cat([first, others], 1)))[:, : self.top].exp().sum(1)

    @property
    def formula(self) -> str:
        """In words, for an axis."""
        return f"generalized entropy of the {self.top} largest known probabilities"
