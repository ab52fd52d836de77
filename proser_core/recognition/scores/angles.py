"""Scores of the angle between an embedding and the weights of the classes."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from proser_core import titles
from proser_core.recognition.logit_tables import NOT_CENTRED, NOT_SCALED, LogitTable
from proser_core.recognition.scores.embedding_score import TINY, EmbeddingScore, embeddings_of, unit
from proser_core.recognition.scores.score_function import tensor_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Cosine(EmbeddingScore):
    """`-max_k cos(w_k, (phi(x) - centre) / scale)`, float64[N] in -1..1, with the directions w float64[K, d] of the
    classes, for what the classifier was trained on: phi(x) itself, or standardised features.

    The paper trains a network for it; here any linear classifier is read so.
    """

    directions: np.ndarray
    centre: np.ndarray = field(default_factory=lambda: NOT_CENTRED)
    scale: np.ndarray = field(default_factory=lambda: NOT_SCALED)

    name = titles.COSINE
    source = "Techapanurak et al. 2020"
    formula = "minus the largest cosine to a known class"
    reads_training = False
    reads_validation = True  # of any table it reads the classifier alone

    @classmethod
    def fit(cls, logits: LogitTable, targets: np.ndarray) -> Self:
        table = embeddings_of(logits, cls.name)
        return cls(unit(table.weights * table.scale), table.centre, table.scale)

    def of_embeddings(self, known: "Tensor", embeddings: "Tensor") -> "Tensor":
        return -_largest_cosine(embeddings, self.directions, self.centre, self.scale)


@dataclass(frozen=True, eq=False)
class MaxLogitAndCosine(EmbeddingScore):
    """`MaxLogit / s_1 + cosine / s_2`, float64[N]: both in units of their standard deviation on validation images.

    A logit is norm times cosine plus bias, so that the sum gives the angle more weight.
    """

    directions: np.ndarray
    logit_scale: float
    cosine_scale: float
    centre: np.ndarray = field(default_factory=lambda: NOT_CENTRED)
    scale: np.ndarray = field(default_factory=lambda: NOT_SCALED)

    name = titles.MAX_LOGIT_COSINE
    source = "docs/method-notes.md"
    formula = "minus the best known logit, minus the largest cosine to a known class, standardised"
    reads_training = False
    reads_validation = True

    @classmethod
    def fit(cls, logits: LogitTable, targets: np.ndarray) -> Self:
        table = embeddings_of(logits, cls.name)
        directions = unit(table.weights * table.scale)
        cosines = _largest_cosine(tensor_of(table.embeddings), directions, table.centre, table.scale).numpy()
        scales = (float(each.std(dtype=np.float64)) for each in (table.known.max(axis=1), cosines))
        logit_scale, cosine_scale = (scale if scale > TINY else 1.0 for scale in scales)  # of one image there is none
        return cls(directions, logit_scale, cosine_scale, table.centre, table.scale)

    def of_embeddings(self, known: "Tensor", embeddings: "Tensor") -> "Tensor":
        cosines = _largest_cosine(embeddings, self.directions, self.centre, self.scale)
        return -known.double().amax(1) / self.logit_scale - cosines / self.cosine_scale


def _largest_cosine(embeddings: "Tensor", directions: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> "Tensor":
    """float64[N] of embeddings [N, d], as the classifier sees them, and unit vectors [K, d]."""
    import torch

    mean, std = (torch.as_tensor(each, device=embeddings.device).double() for each in (centre, scale))
    embeddings = (embeddings.double() - mean) / std
    lengths = embeddings.norm(dim=1).clamp_min(TINY)
    return (embeddings @ torch.as_tensor(directions, device=embeddings.device).T).amax(1) / lengths
