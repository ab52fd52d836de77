"""Digits as a user's own images, in folders."""

import shutil
from pathlib import Path

import pytest
from own_digits import VALUES
from PIL import Image

from proser_core.data.readers import digits


@pytest.fixture(scope="session")
def my_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real digits as a folder of folders, grey, in several sizes; one eight lies among the fours too."""
    root, images = tmp_path_factory.mktemp("my_images"), digits.read("train", 8)
    for name, value in VALUES.items():
        (root / name).mkdir()
        for number, image in enumerate(images.images[images.labels == value][:60]):
            Image.fromarray(image).convert("L").resize((8 + number % 3, 9)).save(root / name / f"{number}.png")
    shutil.copy(root / "eight" / "0.png", root / "four" / "0.png")
    return root
