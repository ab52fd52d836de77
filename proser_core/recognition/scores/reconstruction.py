"""Scores of networks whose dummies are errors of reconstruction."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proser_core import titles
from proser_core.recognition.scores.score_function import ScoreFunction

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SmallestError(ScoreFunction):
    """`min_k |x - G(z, k)|`, float32[N], of dummies [N, K]: the error under the class that suits an image best."""

    name = titles.C2AE
    source = "Oza and Patel 2019"
    needs_dummies = True
    formula = "smallest error of reconstruction under a known class"

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
        return dummies.amin(1)
