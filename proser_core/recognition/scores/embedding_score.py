"""`EmbeddingScore`: what scores of embeddings have in common."""

from typing import TYPE_CHECKING, cast

import numpy as np

from proser_core.errors import ConfigError
from proser_core.recognition.logit_tables import EmbeddingTable, LogitTable
from proser_core.recognition.scores.score_function import ScoreFunction, tensor_of

if TYPE_CHECKING:
    from torch import Tensor

TINY = 1e-12  # norm of an embedding that has no direction


class EmbeddingScore(ScoreFunction):
    """A score of embeddings, and of logits beside them, in float64 throughout.

    The score of an image is the same in every batch except in the last digits, where matrix products may round.
    """

    reads_training = True
    needs_embeddings = True
    at_once = 512  # their distances to an index of 10,000 take 40 MB

    def of_table(self, logits: LogitTable) -> np.ndarray:
        table = embeddings_of(logits, self.name)
        return self.of_embeddings(tensor_of(table.known), tensor_of(table.embeddings)).numpy()

    def of_embeddings(self, known: "Tensor", embeddings: "Tensor") -> "Tensor":
        """float64[N] of known [N, K] and embeddings [N, d], which an exported program needs too."""
        raise NotImplementedError

    @property
    def is_exportable(self) -> bool:
        """Whether it has a form in torch."""
        return type(self).of_embeddings is not EmbeddingScore.of_embeddings


def embeddings_of(logits: LogitTable, score: str) -> EmbeddingTable:
    """The logits as an `EmbeddingTable`. Raises ConfigError for those that have no embeddings."""
    if not hasattr(logits, "embeddings"):
        raise ConfigError(
            f"the score {score} reads embeddings, and these are logits alone; compute both by compute_embedding_table"
        )
    return cast(EmbeddingTable, logits)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows float64[N, d] of length 1; those without a direction stay 0."""
    vectors = vectors.astype(np.float64)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), TINY)
