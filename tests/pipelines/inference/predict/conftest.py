"""A model and real digits as files, a damaged one among them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from proser_core.data.readers import digits
from proser_core.recognition.open_set_classifier import OpenSetClassifier


@pytest.fixture(scope="module")
def model(classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    classifier.save(folder)
    return str(folder)


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return digits.read("test", 8).images[:60]


@pytest.fixture(scope="module")
def images(pixels: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty digits as files, a damaged one and a text among them."""
    folder = tmp_path_factory.mktemp("images")
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{number:03}.png")
    (folder / "999.png").write_bytes(b"\x89PNG, and no more")
    (folder / "notes.txt").write_text("what these are")
    return folder
