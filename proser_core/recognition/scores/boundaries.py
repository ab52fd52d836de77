"""fDBD (Liu and Qin 2024): how near an embedding lies to the boundaries between its class and the others."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from proser_core import titles
from proser_core.recognition.logit_tables import NOT_SCALED, LogitTable
from proser_core.recognition.scores.embedding_score import TINY, EmbeddingScore, embeddings_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class BoundaryDistance(EmbeddingScore):
    """`-mean_c |l_p - l_c| / (|w_p - w_c| |phi(x) - mu|)`, float64[N], over all classes c but the predicted one, p; 0
    for a single class.

    The distances of an embedding to the decision boundaries, in units of that to the mean mu float64[d] of training
    embeddings; `weights` float64[K, d] are those of the classes. Both distances are in units of `scale`, by which the
    features were divided that the classifier was trained on.
    """

    mean: np.ndarray
    weights: np.ndarray
    scale: np.ndarray = field(default_factory=lambda: NOT_SCALED)

    name = titles.FDBD
    source = "Liu and Qin 2024"
    formula = "minus the mean distance to decision boundaries, by that to the mean embedding"

    @classmethod
    def fit(cls, training: LogitTable, targets: np.ndarray) -> Self:
        table = embeddings_of(training, cls.name)
        weights = table.weights.astype(np.float64) * table.scale
        return cls(table.embeddings.mean(axis=0, dtype=np.float64), weights, table.scale)

    def of_embeddings(self, known: "Tensor", embeddings: "Tensor") -> "Tensor":
        import torch

        arrays = (self.mean, self.weights, self.scale)
        mean, weights, scale = (torch.as_tensor(each, device=known.device).double() for each in arrays)
        best = known.double().max(1)
        squares = (weights**2).sum(1)  # of all pairs of classes there would be too many
        gaps = (squares[best.indices, None] + squares - 2 * weights[best.indices] @ weights.T).clamp_min(TINY**2).sqrt()
        to_boundaries = ((best.values[:, None] - known.double()) / gaps).sum(1) / max(1, known.shape[1] - 1)
        return -to_boundaries / ((embeddings.double() - mean) / scale).norm(dim=1).clamp_min(TINY)
