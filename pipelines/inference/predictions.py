"""Predictions on some images with their names: what moves from a process that classifies to the one that writes."""

from dataclasses import dataclass

import numpy as np

from proser_core.data.readers.image_files import Decoded, Failure
from proser_core.recognition.open_set_classifier import OpenSetClassifier, Predictions

LOOKED_AT = 40  # most unknown images that a contact sheet shows


@dataclass(frozen=True)
class Answer:
    """Predictions by name, images that were left out, and the most unknown ones.

    `outliers` are rows int64[m] of the predictions, most unknown first; `pixels` uint8[m, size, size, 3] are theirs.
    """

    names: list[str]
    predictions: Predictions
    failures: list[Failure]
    outliers: np.ndarray
    pixels: np.ndarray


def answer(classifier: OpenSetClassifier, part: Decoded, device: str, looked_at: int) -> Answer:
    """Classify what was decoded; `looked_at` of the most unknown images go with the answer."""
    predictions = classifier.predict(part.images, device) if part.names else classifier.no_predictions()
    outliers = np.argsort(-predictions.unknown_scores, kind="stable")[:looked_at]
    return Answer(part.names, predictions, part.failures, outliers, part.images[outliers])
