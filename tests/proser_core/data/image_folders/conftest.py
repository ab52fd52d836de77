"""Three classes of images in train/ and test/."""

from pathlib import Path

import pytest
from small_folders import FILES, save
from small_tasks import random_images


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, image in zip(FILES, random_images(len(FILES)), strict=True):
        save(image, tmp_path / "own" / name)
    return tmp_path / "own"
