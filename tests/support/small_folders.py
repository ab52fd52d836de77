"""A small folder of images by part and class, and what is read of it."""

from pathlib import Path

import numpy as np
from PIL import Image

from proser_core.data.data_sets import open_data_set
from proser_core.data.image_sets import ImageSet

FILES = (
    "train/cow/1.png",
    "train/ant/b.png",
    "train/ant/a.PNG",
    "train/bee/deep/down/c.png",
    "train/bee/d é.png",
    "test/ant/1.png",
    "test/bee/1.png",
    "test/cow/1.png",
)


def save(image: np.ndarray, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)


def load(root: Path, part: str = "train", classes: list[int] | None = None) -> ImageSet:
    return open_data_set("folder", root).load(part, size=8, classes=classes)
