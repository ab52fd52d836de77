"""Scores of a network with dummy classifiers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proser_core import titles
from proser_core.config import Recipe
from proser_core.recognition.scores.closed_set import MaxLogit
from proser_core.recognition.scores.score_function import ScoreFunction

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PlaceholderGap(ScoreFunction):
    """`w * max_c w_hat_c^T phi(x) - max_k w_k^T phi(x)`, float32[N], with w = `dummy_weight`.

    1 is the paper's (sec. Calibration).
    """

    dummy_weight: float = 1.0

    name = titles.GAP
    source = "Zhou et al. 2021"
    needs_dummies = True

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
        return self.dummy_weight * dummies.amax(1) - known.amax(1)

    @property
    def formula(self) -> str:
        """In words, for an axis."""
        weight = "" if self.dummy_weight == 1 else f"{self.dummy_weight:g} x "
        return f"{weight}best dummy logit - best known logit"


@dataclass(frozen=True)
class UnknownProbability(ScoreFunction):
    """`log softmax([W^T phi, max_c w_hat_c^T phi])_K`, float64[N]: PROSER's second score.

    With g = logsumexp(W^T phi) - max_c w_hat_c^T phi it is -log(1 + exp g), which tells apart probabilities that round
    to 1.
    """

    name = titles.P_UNKNOWN
    source = "authors' released code"
    needs_dummies = True
    formula = "log of the probability of unknown"

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
        gap = known.double().logsumexp(1) - dummies.double().amax(1)
        return -gap.clamp_min(0) - (-gap.abs()).exp().log1p()


def placeholder_score(dummy_weight: float) -> ScoreFunction:
    """The score of a recipe's network with placeholders: the gap, or MaxLogit where its dummies have weight 0."""
    return PlaceholderGap(dummy_weight) if dummy_weight else MaxLogit()


def own_score(recipe: Recipe) -> ScoreFunction:
    """The score of the network that a recipe's own fine-tune makes."""
    if recipe.finetune.objective == "cross_entropy":
        return MaxLogit()
    return placeholder_score(recipe.calibration.dummy_weight)
