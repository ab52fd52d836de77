"""A program is compared with its classifier before it is given away."""

from pathlib import Path

import numpy as np
import pytest
from small_tasks import SIZE, make_classifier

from proser_core.errors import CheckpointError
from proser_core.recognition.program import Outputs, export_program, load_program
from proser_core.recognition.program_check import TOLERANCE, check_program, random_images

CLASSIFIER = make_classifier("gap")


def faithful(images: np.ndarray) -> Outputs:
    """What the classifier itself says."""
    said = CLASSIFIER.predict(images)
    return said.indices.copy(), said.unknown_scores.copy(), said.probabilities.copy()


def test_the_program_of_a_classifier_agrees_with_it(tmp_path: Path) -> None:
    export_program(CLASSIFIER, tmp_path / "program.pt2")
    found = check_program(CLASSIFIER, load_program(tmp_path / "program.pt2"), random_images(SIZE))
    assert (found.images, 0 < found.unknown < 64) == (64, True)
    assert max(found.scores, found.probabilities) < TOLERANCE / 10


@pytest.mark.parametrize("wrong", ["score", "probability", "label", "nan", "batch"])
def test_one_that_decides_in_another_way_is_refused(wrong: str) -> None:
    images = random_images(SIZE)

    def run(part: np.ndarray) -> Outputs:
        indices, scores, probabilities = faithful(part)
        if wrong == "score":
            scores[-1] += 2 * TOLERANCE * max(1, abs(scores[-1]))
        elif wrong == "probability":
            probabilities[-1, 0] += 2 * TOLERANCE
        elif wrong == "label":
            indices[-1] = probabilities[-1].argmin()
        elif wrong == "nan":
            scores[-1] = np.nan
        elif len(part) == 1:
            scores[-1] += 1
        return indices, scores, probabilities

    with pytest.raises(CheckpointError, match="does not decide as the model does"):
        check_program(CLASSIFIER, run, images)
    assert check_program(CLASSIFIER, faithful, images).scores == 0


def test_random_images_are_always_the_same_from_two_by_two_colours_to_noise() -> None:
    images = random_images(32)
    assert (images.shape, images.dtype) == ((64, 32, 32, 3), np.uint8)
    np.testing.assert_array_equal(images, random_images(32))
    roughness = np.abs(np.diff(images.astype(float), axis=1)).reshape(4, -1).mean(1)
    assert (np.diff(roughness) > 0).all()
