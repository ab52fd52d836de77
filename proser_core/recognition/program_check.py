"""Whether an exported program decides as its classifier does."""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from proser_core.data.decoding import to_rgb_square
from proser_core.errors import CheckpointError
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.program import Outputs, Run
from proser_core.titles import counted

TOLERANCE = 1e-4
"""The most by which scores, relative to the larger of 1 and the score, and probabilities may differ. A decision may
differ where its two classes are as close."""
EACH = 16  # random images of each grain


@dataclass(frozen=True)
class Agreement:
    """How many images a program was checked on, how many of them are unknown, and its largest differences."""

    images: int
    unknown: int
    scores: float
    probabilities: float


def check_program(classifier: OpenSetClassifier, run: Run, images: np.ndarray) -> Agreement:
    """Compare all images at once, and the first one by itself. Raises CheckpointError beyond TOLERANCE."""
    _compare(classifier, run(images[:1]), images[:1])
    return _compare(classifier, run(images), images)


def _compare(classifier: OpenSetClassifier, got: Outputs, images: np.ndarray) -> Agreement:
    want = classifier.predict(images)
    indices, scores, probabilities = got
    rows = np.arange(len(images))
    found = Agreement(
        len(images),
        int((want.indices == len(classifier.class_names)).sum()),
        float((np.abs(scores - want.unknown_scores) / np.maximum(1, np.abs(want.unknown_scores))).max()),
        float(np.abs(probabilities - want.probabilities).max()),
    )
    decided = want.probabilities[rows, want.indices] - want.probabilities[rows, indices]
    if not np.max([found.scores, found.probabilities, decided.max()]) <= TOLERANCE:  # of nan it is nan
        raise CheckpointError(
            f"the exported program does not decide as the model does: on {counted(len(images), 'image')} scores differ "
            f"by up to {found.scores:.1g}, probabilities by {found.probabilities:.1g}, and "
            f"{(indices != want.indices).sum()} labels; {TOLERANCE:g} is allowed. "
            "Nothing was written; export to the other format"
        )
    return found


def random_images(size: int) -> np.ndarray:
    """uint8[N, size, size, 3], from two colours to noise: each the same whenever it is made."""
    generator = np.random.default_rng(0)
    grains = [generator.integers(0, 256, (EACH, grain, grain, 3), np.uint8) for grain in (2, 4, 8, size)]
    return np.stack([to_rgb_square(Image.fromarray(image), size) for grain in grains for image in grain])
