"""ViM (Wang et al. 2022): what of an embedding lies outside of the space of the training images, as one more logit."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from proser_core import titles
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.scores.embedding_score import EmbeddingScore, embeddings_of
from proser_core.recognition.scores.gaussians import NO_SPREAD

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class VirtualLogit(EmbeddingScore):
    """`alpha |R^T (phi(x) - o)| - log sum_k exp(w_k^T phi(x))`, float64[N].

    o float64[d] is `origin`, -W^+ b; R float64[d, d - D] is `residual`, orthogonal to the D main directions of the
    training embeddings around o. D is half of those that have any spread (paper: 1000 of 2048, 512 of 768). alpha
    makes the mean of the virtual logit that of the maximum logit, of training images.
    """

    origin: np.ndarray
    residual: np.ndarray
    alpha: float

    name = titles.VIM
    source = "Wang et al. 2022"
    formula = "virtual logit - log of the sum of exponentials of the known logits"

    @classmethod
    def fit(cls, training: LogitTable, targets: np.ndarray) -> Self:
        table = embeddings_of(training, cls.name)
        origin = -np.linalg.pinv(table.weights.astype(np.float64)) @ table.biases.astype(np.float64)
        centred = table.embeddings.astype(np.float64) - origin
        variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
        rank = int((variances > NO_SPREAD * max(variances[-1], 0.0)).sum())
        residual = directions[:, : len(variances) - rank // 2]  # the smallest come first
        lengths = np.linalg.norm(centred @ residual, axis=1)
        return cls(origin, residual, float(table.known.max(axis=1).mean(dtype=np.float64) / lengths.mean()))

    def of_embeddings(self, known: "Tensor", embeddings: "Tensor") -> "Tensor":
        import torch

        origin, residual = (torch.as_tensor(each, device=known.device) for each in (self.origin, self.residual))
        virtual = self.alpha * ((embeddings.double() - origin) @ residual).norm(dim=1)
        return virtual - known.double().logsumexp(1)
