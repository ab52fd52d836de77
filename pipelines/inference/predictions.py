"""Predictions of a classifier on images by path, part by part: memory does not grow with their number."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from proser_core.data.decoding import Failure
from proser_core.data.readers.image_files import NO_OUTPUTS, Decoded, Outputs, decoded, pieces
from proser_core.errors import DataError
from proser_core.recognition.open_set_classifier import OpenSetClassifier, Predictions


@dataclass(frozen=True)
class PredictedPart:
    """Predictions on some images with their names, the images that were skipped, and the most unknown ones.

    `most_unknown` are rows int64[m] of the predictions, most unknown first; `pixels` uint8[m, size, size, 3] are their
    images.
    """

    names: list[str]
    predictions: Predictions
    failures: list[Failure]
    most_unknown: np.ndarray
    pixels: np.ndarray


def predict_part(classifier: OpenSetClassifier, part: Decoded, device: str, num_kept: int = 0) -> PredictedPart:
    """Classify decoded images, and keep the pixels of the `num_kept` most unknown ones."""
    predictions = classifier.predict(part.images, device) if part.names else classifier.no_predictions()
    most_unknown = np.argsort(-predictions.unknown_scores, kind="stable")[:num_kept]
    return PredictedPart(part.names, predictions, part.failures, most_unknown, part.images[most_unknown])


def decoded_parts(paths: Sequence[str], size: int, outputs: Outputs = NO_OUTPUTS) -> Generator[Decoded, None, None]:
    """The images below the paths in their order, part by part, decoded by threads at this size: the next ones while the
    caller works on these. Raises as `pieces` and `decoded`."""
    with ThreadPoolExecutor() as pool, ThreadPoolExecutor(1) as ahead:
        parts = (part for piece in pieces(paths, outputs) for part in decoded(piece, size, pool))
        coming = ahead.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = ahead.submit(next, parts, None)
            yield part


def read_images(
    paths: Sequence[str], size: int, report: Callable[[int], None], outputs: Outputs = NO_OUTPUTS
) -> Generator[Decoded, None, None]:
    """As `decoded_parts`; `report` gets how many images the caller is done with, the skipped ones among them. Raises
    DataError at the end where none could be decoded."""
    done, first, has_images = 0, "", False
    with closing(decoded_parts(paths, size, outputs)) as parts:
        for part in parts:
            yield part
            has_images = has_images or bool(part.names)
            first = first or next((failure.reason for failure in part.failures), "")
            done += len(part.names) + len(part.failures)
            report(done)
    if not has_images:
        raise DataError(f"no image can be decoded, of {done:,}; {first}")


def predict_paths(
    classifier: OpenSetClassifier, paths: Sequence[str], outputs: Outputs, device: str = "cpu", num_kept: int = 0
) -> Generator[PredictedPart, None, None]:
    """Predictions in the order of the images."""
    with closing(decoded_parts(paths, classifier.image_size, outputs)) as parts:
        for part in parts:
            yield predict_part(classifier, part, device, num_kept)
