"""Digits as a user's own images, in folders."""

import shutil
from pathlib import Path

import pytest
from digit_folders import write_digits
from own_digits import VALUES
from PIL import Image


@pytest.fixture(scope="session")
def my_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real digits as a folder of folders, grey, in several sizes; one eight lies among the fours too."""

    def grey(image: Image.Image, number: int) -> Image.Image:
        return image.convert("L").resize((8 + number % 3, 9))

    root = write_digits(tmp_path_factory.mktemp("my_images"), VALUES, 60, changed=grey)
    shutil.copy(root / "eight" / "0.png", root / "four" / "0.png")
    return root
