"""Scores of Gaussians that are fitted to the embeddings of training images."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from proser_core import titles
from proser_core.errors import CalibrationError
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.scores.embedding_score import EmbeddingScore, embeddings_of
from proser_core.recognition.scores.score_function import checked_targets

if TYPE_CHECKING:
    from torch import Tensor

NO_SPREAD = 1e-10  # of a variance, in units of the largest: rounding of float32 embeddings


@dataclass(frozen=True, eq=False)
class Mahalanobis(EmbeddingScore):
    """`min_k (phi(x) - mu_k)^T Sigma^+ (phi(x) - mu_k)`, float64[N], with one covariance for all classes.

    Of the last embedding, without the paper's changed input and its other layers. Sigma^+ is the pseudo-inverse: units
    that are never active have no variance. Stored are `whitening` float64[d, r], with Sigma^+ its square, and the
    whitened means float64[K, r].
    """

    whitening: np.ndarray
    means: np.ndarray

    name = titles.MAHALANOBIS
    source = "Lee et al. 2018"
    formula = "squared Mahalanobis distance to the nearest known class"

    @classmethod
    def fit(cls, training: LogitTable, targets: np.ndarray) -> Self:
        embeddings = embeddings_of(training, cls.name).embeddings.astype(np.float64)
        return cls(*_tied_gaussian(embeddings, checked_targets(targets, training, cls.name)))

    def of_embeddings(self, known: "Tensor", embeddings: "Tensor") -> "Tensor":
        return _smallest_distance(embeddings, self.whitening, self.means)


@dataclass(frozen=True, eq=False)
class RelativeMahalanobis(EmbeddingScore):
    """The squared Mahalanobis distance to the nearest class less that to all training images as one Gaussian,
    float64[N].

    The arrays of `Mahalanobis`, and the same of the one Gaussian: `background` float64[d, r], `centre` float64[1, r].
    Both distances are in the r directions in which embeddings differ within a class: of no more images than
    dimensions, those between the classes would count in the second alone.
    """

    whitening: np.ndarray
    means: np.ndarray
    background: np.ndarray
    centre: np.ndarray

    name = titles.RELATIVE_MAHALANOBIS
    source = "Ren et al. 2021"
    formula = "Mahalanobis distance to the nearest known class - that to all of them"

    @classmethod
    def fit(cls, training: LogitTable, targets: np.ndarray) -> Self:
        embeddings = embeddings_of(training, cls.name).embeddings.astype(np.float64)
        whitening, means = _tied_gaussian(embeddings, checked_targets(targets, training, cls.name))
        basis = whitening / np.linalg.norm(whitening, axis=0)
        background, centre = _tied_gaussian(embeddings @ basis, np.zeros(len(embeddings), np.int64))
        return cls(whitening, means, basis @ background, centre)

    def of_embeddings(self, known: "Tensor", embeddings: "Tensor") -> "Tensor":
        to_all = _smallest_distance(embeddings, self.background, self.centre)
        return _smallest_distance(embeddings, self.whitening, self.means) - to_all


def _tied_gaussian(embeddings: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`whitening` float64[d, r] and whitened means float64[K, r] of embeddings float64[N, d] by class. A class without
    an image has no mean. Raises CalibrationError where embeddings differ within no class."""
    classes = np.unique(targets)
    means = np.stack([embeddings[targets == each].mean(axis=0) for each in classes])
    centred = embeddings - means[np.searchsorted(classes, targets)]
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    spread = variances > NO_SPREAD * max(variances[-1], 0.0)
    if not spread.any():
        raise CalibrationError(
            f"a Gaussian needs embeddings that differ within a class; those of {len(targets)} training images of "
            f"{len(classes)} classes do not. Give several images per class, or another score"
        )
    whitening = directions[:, spread] / np.sqrt(variances[spread])
    return whitening, means @ whitening


def _smallest_distance(embeddings: "Tensor", whitening: np.ndarray, means: np.ndarray) -> "Tensor":
    """Squared, float64[N], to the nearest of the means."""
    import torch

    to, centres = (torch.as_tensor(each, device=embeddings.device) for each in (whitening, means))
    exact = "donot_use_mm_for_euclid_dist"  # a product would lose the digits of small distances
    return torch.cdist(embeddings.double() @ to, centres, compute_mode=exact).amin(1).square()
