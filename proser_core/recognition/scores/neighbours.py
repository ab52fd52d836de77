"""Scores of the distance to the nearest training images (Sun et al. 2022)."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from proser_core import titles
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.scores.embedding_score import TINY, EmbeddingScore, embeddings_of
from proser_core.recognition.scores.score_function import checked_targets, tensor_of

if TYPE_CHECKING:
    from torch import Tensor

NEIGHBOUR = 10
"""Which neighbour. Source: method notes (paper: 50 of CIFAR10's 50,000 training images)."""


@dataclass(frozen=True, eq=False)
class EuclideanNeighbour(EmbeddingScore):
    """`|phi(x) - phi(x_(k))|`, float64[N]: the distance to the k-th nearest of `index` float32[n, d], embeddings of
    training images.

    k is NEIGHBOUR, or the size of the smallest class: a further neighbour of its images is always a stranger.
    """

    index: np.ndarray
    neighbour: int = NEIGHBOUR

    name = titles.KNN_EUCLIDEAN
    source = "Sun et al. 2022, without their normalisation"

    @classmethod
    def fit(cls, training: LogitTable, targets: np.ndarray) -> Self:
        embeddings = tensor_of(embeddings_of(training, cls.name).embeddings)
        smallest = int(np.unique(checked_targets(targets, training, cls.name), return_counts=True)[1].min())
        return cls(cls.features(embeddings.double()).float().numpy(), min(NEIGHBOUR, smallest))

    @staticmethod
    def features(embeddings: "Tensor") -> "Tensor":
        """What distances are taken of, float64[N, d]."""
        return embeddings

    @cached_property
    def _points(self) -> np.ndarray:
        return self.index.astype(np.float64)

    def of_embeddings(self, known: "Tensor", embeddings: "Tensor") -> "Tensor":
        import torch

        points = torch.as_tensor(self._points, device=embeddings.device)
        features = self.features(embeddings.double())
        squares = points.square().sum(1) - 2 * features @ points.T  # + |features|^2, which no order depends on
        nearest = squares.topk(self.neighbour, dim=1, largest=False).indices[:, -1]
        return (features - points[nearest]).norm(dim=1)  # the difference itself: no digits are lost

    @property
    def formula(self) -> str:
        """In words, for an axis."""
        return f"distance to neighbour {self.neighbour} among training images"


@dataclass(frozen=True, eq=False)
class NormalisedNeighbour(EuclideanNeighbour):
    """The same with embeddings of length 1, as in the paper: a distance of directions, float64[N] in 0..2."""

    name = titles.KNN
    source = "Sun et al. 2022"

    @staticmethod
    def features(embeddings: "Tensor") -> "Tensor":
        return embeddings / embeddings.norm(dim=1, keepdim=True).clamp_min(TINY)

    @property
    def formula(self) -> str:
        """In words, for an axis."""
        return f"distance of directions to neighbour {self.neighbour} among training images"
