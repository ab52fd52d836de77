"""`ScoreFunction`: from the logits of an image to one number, larger for unknown.

No score loads torch before it is used: `proser list` and help texts name them all.
"""

from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from proser_core.errors import CalibrationError, ConfigError
from proser_core.recognition.logit_tables import LogitTable, select

if TYPE_CHECKING:
    from torch import Tensor


class ScoreFunction:
    """A score, fitted if it has anything to fit.

    Each one is a frozen dataclass; its fields, numbers and arrays, are saved with a classifier. It has `in_torch`, or
    overrides `of_table` where there is no such form. The score of an image must not depend on the other images.

    name: in tables and in files. source: its paper. reads_training: whether `fit` reads the logits of training images.
    reads_validation: whether it reads those of validation images in their place, without targets. needs_dummies:
    whether the network must have dummy classifiers. needs_embeddings: whether it is an `EmbeddingScore`, which reads
    them beside logits. at_once: images that are scored at a time, in float64.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    reads_training: ClassVar[bool] = False
    reads_validation: ClassVar[bool] = False
    needs_dummies: ClassVar[bool] = False
    needs_embeddings: ClassVar[bool] = False
    at_once: ClassVar[int] = 4096

    def __init_subclass__(cls) -> None:
        """Raises ConfigError for a `fit` of its own that would be given nothing to read."""
        super().__init_subclass__()
        if "fit" in vars(cls) and not (cls.reads_training or cls.reads_validation):
            raise ConfigError(
                f"{cls.__name__} has a fit of its own, and reads no images; set reads_training = True, or "
                "reads_validation = True"
            )

    @classmethod
    def fit(cls, logits: LogitTable, targets: np.ndarray) -> Self:
        """Fitted to the logits of N training images and their targets int64[N] in 0..K-1, or to those of validation
        images, without targets: int64[0]. Both are empty for a score that reads neither."""
        return cls()

    def __call__(self, logits: LogitTable) -> np.ndarray:
        """float[N], larger for unknown. Raises ConfigError where the table lacks the embeddings or the dummies that it
        reads."""
        if self.needs_dummies and not logits.dummies.shape[1]:
            raise ConfigError(
                f"the score {self.name} reads dummy logits, and these have none; give those of a network with dummies, "
                "or take a score whose needs_dummies is False"
            )
        starts = range(0, max(1, len(logits)), self.at_once)
        return np.concatenate([self.of_table(select(logits, slice(each, each + self.at_once))) for each in starts])

    def of_table(self, logits: LogitTable) -> np.ndarray:
        """float[n] of at most `at_once` images."""
        return self.in_torch(tensor_of(logits.known), tensor_of(logits.dummies)).numpy()

    def in_torch(self, known: "Tensor", dummies: "Tensor") -> "Tensor":
        """The score of known [N, K] and dummies [N, C], which an exported program needs too."""
        raise NotImplementedError

    @property
    def is_exportable(self) -> bool:
        """Whether it has a form in torch."""
        return type(self).in_torch is not ScoreFunction.in_torch

    @property
    def formula(self) -> str:
        """In words, for an axis."""
        return self.name


def checked_targets(targets: np.ndarray, training: LogitTable, score: str) -> np.ndarray:
    """The targets of these training images. Raises CalibrationError for what is not one integer in 0..K-1 per image."""
    targets, count, num_known = np.asarray(targets), *training.known.shape
    if targets.shape != (count,) or targets.dtype.kind not in "iu":
        raise CalibrationError(
            f"{score} got targets {targets.dtype}{list(targets.shape)} of {count} training images; need one integer "
            "per image"
        )
    if count and not 0 <= targets.min() <= targets.max() < num_known:
        raise CalibrationError(
            f"{score} got targets from {targets.min()} to {targets.max()}; need 0 to {num_known - 1}, one for each "
            "column of the logits"
        )
    return targets


def tensor_of(array: np.ndarray) -> "Tensor":
    """A copy; torch itself takes no array with negative strides."""
    import torch

    return torch.tensor(np.ascontiguousarray(array))
