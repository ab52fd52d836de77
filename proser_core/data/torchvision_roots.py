"""Reader of torchvision's own data folders (MNIST, CIFAR10 and CIFAR100)."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from proser_core.data.image_sets import ImageSet, to_rgb_square
from proser_core.errors import DataError

FOLDERS = {"MNIST": "MNIST/raw", "CIFAR10": "cifar-10-batches-py", "CIFAR100": "cifar-100-python"}


def folder(class_name: str) -> str:
    """Folder that the torchvision class keeps below its root."""
    return FOLDERS[class_name]


def is_present(class_name: str, root: Path) -> bool:
    """Whether the root holds the unpacked data set."""
    return (root / folder(class_name)).is_dir()


def read(
    class_name: str,
    root: Path,
    part: str,
    *,
    size: int,
    classes: Collection[int] | None = None,
    count: int | None = None,
    download: bool = False,
) -> ImageSet:
    """Images of `classes` (default: all). Raises DataError for missing or damaged files."""
    import torchvision

    cls: Any = getattr(torchvision.datasets, class_name)
    try:
        dataset = cls(root, train=part == "train", download=download)
    except Exception as error:  # torchvision raises RuntimeError, OSError, URLError, UnpicklingError and others
        raise DataError(
            f"{root / folder(class_name)} cannot be read as torchvision's {class_name} ({error}); "
            "remove the folder and fetch it again, by data.download for instance"
        ) from error
    if count is not None and len(dataset) != count:
        raise DataError(f"{root / folder(class_name)} has {len(dataset)} {part} images; the data set has {count}")
    labels = np.asarray(dataset.targets, dtype=np.int64)
    wanted = np.ones(len(labels), bool) if classes is None else np.isin(labels, list(classes))
    pixels = np.asarray(dataset.data)[wanted]
    if pixels.shape[1:] != (size, size, 3):  # another size, or grey
        squares = [to_rgb_square(Image.fromarray(image), size) for image in pixels]
        pixels = np.stack(squares) if squares else np.zeros((0, size, size, 3), np.uint8)
    return ImageSet(pixels, labels[wanted], tuple(dataset.classes))
