"""Unknown images without names, and a model that finds them so."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from reviews import HOSTILE

from proser_core.data.readers import digits
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.open_set_classifier import OpenSetClassifier


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits in one folder, without their classes, ten of them in files with hostile names."""
    folder, images = tmp_path_factory.mktemp("photos"), digits.read("test", 8)
    for number, pixels in enumerate(images.images[:200]):
        Image.fromarray(pixels).save(folder / (f"{number} {HOSTILE}" if number < 10 else f"{number:04}.png"))
    return folder


@pytest.fixture(scope="module")
def model(classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calls most images unknown."""
    assert classifier.validation_scores is not None
    folder, scores = tmp_path_factory.mktemp("model"), classifier.validation_scores
    replace(classifier, calibration=calibrate(scores.scores[scores.is_known], 0.1)).save(folder)
    return folder
