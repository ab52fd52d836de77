"""`OpenSetClassifier`: a trained network with a fitted, calibrated score, in use."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from proser_core.data.decoding import to_rgb_square
from proser_core.errors import ConfigError, DataError
from proser_core.naming import UNKNOWN
from proser_core.recognition.classifier_files import read_classifier, write_classifier
from proser_core.recognition.embedding_table import compute_embedding_table
from proser_core.recognition.logit_tables import EmbeddingTable, LogitTable
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.scoring import score, unknown_probabilities
from proser_core.recognition.trained_classifier import TrainedClassifier


@dataclass(frozen=True, eq=False)  # arrays have no one truth value
class Predictions:
    """Decisions on N images.

    labels: class names, or "unknown"; indices int64[N] in 0..K (K unknown); unknown_scores
    float[N] in units of the score, above 0 for unknown; probabilities float64[N, K+1], the last column for
    unknown; known_predictions int64[N] in 0..K-1, the likeliest known class. Of an unknown image it cannot be read from
    the probabilities, which may all be 0.
    """

    labels: list[str]
    indices: np.ndarray
    unknown_scores: np.ndarray
    probabilities: np.ndarray
    known_predictions: np.ndarray

    def part(self, begin: int, end: int) -> "Predictions":
        """The predictions of the images `begin` to `end`, without the last."""
        rows = slice(begin, end)
        return Predictions(*(values[rows] for values in vars(self).values()))

    def columns(self, class_names: Sequence[str]) -> dict[str, Any]:
        """Columns of a table, one row per image: label, unknown, unknown_score, p_CLASS ..., p_unknown."""
        return {
            "label": self.labels,
            "unknown": self.indices == len(class_names),
            "unknown_score": self.unknown_scores.astype(np.float64),
            **dict(zip(probability_columns(class_names), self.probabilities.T, strict=True)),
        }


def probability_columns(class_names: Sequence[str]) -> list[str]:
    """Names of the columns of probabilities in tables of predictions."""
    return [f"p_{name}" for name in (*class_names, UNKNOWN)]


class OpenSetClassifier(TrainedClassifier):
    """Names the known class of an image, or says that it is unknown.

    `class_names`, `calibration`, `results` (metrics by name) and the other fields are those of `TrainedClassifier`.
    """

    def predict(self, images: np.ndarray, device: str = "cpu") -> Predictions:
        """Classify uint8 images [N, H, W, 3] or [N, H, W]; another size is resampled.

        Raises DataError for images of another type or shape, ConfigError for a device that is not there.
        """
        logits = self.logits(images, device)
        scores = score(logits, self.score_function, self.calibration)
        names = (*self.class_names, UNKNOWN)
        return Predictions(
            labels=[names[index] for index in scores.predictions],
            indices=scores.predictions,
            unknown_scores=scores.unknown_scores,
            probabilities=unknown_probabilities(logits, scores.scores, self.calibration.bias),
            known_predictions=scores.known_predictions,
        )

    def logits(self, images: np.ndarray, device: str = "cpu") -> LogitTable:
        """What `predict` decides by, of the same images."""
        given = self.net, self._fit_size(images), self.normalisation, device
        return compute_embedding_table(*given, mirror=self.mirror) if self.reads_embeddings else compute_logits(*given)

    def embeddings(self, images: np.ndarray, device: str = "cpu") -> EmbeddingTable:
        """Logits and embeddings of the same images, whatever the score reads. Raises ConfigError for a network of a
        method's own."""
        return compute_embedding_table(self.net, self._fit_size(images), self.normalisation, device, mirror=self.mirror)

    def no_predictions(self) -> Predictions:
        """What `predict` would give for no image."""
        none = np.zeros(0, np.int64)
        return Predictions([], none, np.zeros(0, np.float32), np.zeros((0, len(self.class_names) + 1)), none)

    def _fit_size(self, images: np.ndarray) -> np.ndarray:
        if not isinstance(images, np.ndarray):
            raise DataError(f"got images as {type(images).__name__}; need a NumPy array uint8[N, height, width, 3]")
        shape = (self.image_size, self.image_size, 3)
        grey = images.ndim == 3 and images.shape[2] != 3  # [H, W, 3] is one RGB image, not H grey ones
        if (
            images.dtype != np.uint8
            or not (grey or (images.ndim == 4 and images.shape[3] in (1, 3)))
            or not images.size
        ):
            raise DataError(
                f"got images of {images.dtype}{list(images.shape)}; need at least one, as uint8[N, height, width, 3] "
                "or grey as uint8[N, height, width]"
            )
        if images.shape[1:] == shape:
            return images
        squeezed = images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images
        return np.stack([to_rgb_square(Image.fromarray(image), self.image_size) for image in squeezed])

    def save(self, folder: str | Path) -> None:
        """Write weights (safetensors), arrays (.npz), a model card (Markdown) and everything else (JSON).

        A classifier that is in the folder is replaced once all is written; other files there stay.
        Raises ConfigError for an empty name, and for a path at which there is a file.
        """
        if not str(folder):
            raise ConfigError("the folder to save to got an empty name; need a path, such as . for the current folder")
        write_classifier(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> "OpenSetClassifier":
        """Read what `save` wrote; nothing is unpickled.

        Raises CheckpointError for another format, for a file that is not the one that was saved, for a value of another
        type or range, and for parts that do not belong together.
        """
        return read_classifier(Path(folder), cls)
