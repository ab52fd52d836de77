"""Real digits as files in folders by class."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from proser_core.data.readers import digits


def write_digits(
    root: Path,
    classes: Mapping[str, int] | None = None,
    count: int | None = None,
    part: str = "train",
    every: int = 1,
    name: str = "{number}.png",
    size: int = 8,
    changed: Callable[[Image.Image, int], Image.Image] = lambda image, number: image,
) -> Path:
    """So many images of each class, or all; all classes, or those with these values, under these names.

    Of the part's rows only each `every`th counts. A file's name has its number in its class, or its row in the part.
    """
    images = digits.read(part, size)
    for folder, value in (classes or {each: value for value, each in enumerate(images.class_names)}).items():
        (root / folder).mkdir(parents=True)
        rows = np.flatnonzero(images.labels == value)
        for number, row in enumerate(rows[rows % every == 0][:count]):
            file = root / folder / name.format(number=number, row=row)
            changed(Image.fromarray(images.images[row]), number).save(file)
    return root


def write_parts(root: Path, size: int, count: Mapping[str, int] | None = None) -> Path:
    """ROOT/train/CLASS/*.png and ROOT/test/CLASS/*.png; of each class `count[part]` images, where that is given."""
    for part in ("train", "test"):
        write_digits(root / part, None, count and count[part], part, name="{row:04}.png", size=size)
    return root
