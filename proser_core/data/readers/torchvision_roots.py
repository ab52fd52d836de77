"""Reader of torchvision's own data folders (MNIST, CIFAR10 and CIFAR100), and of SVHN's files, which it has no folder
for."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from proser_core.data.decoding import to_rgb_square
from proser_core.data.image_sets import ImageSet
from proser_core.errors import DataError

FOLDERS = {"MNIST": "MNIST/raw", "CIFAR10": "cifar-10-batches-py", "CIFAR100": "cifar-100-python"}
FILES = {"SVHN": ("train_32x32.mat", "test_32x32.mat")}
DOWNLOAD = "--data.download, or --download of proser reproduce"  # how torchvision is asked to fetch what is missing


def needs(class_name: str) -> str:
    """What the torchvision class keeps in its root: a folder, or files."""
    return " and ".join(FILES[class_name]) if class_name in FILES else f"{FOLDERS[class_name]}/"


def is_present(class_name: str, root: Path) -> bool:
    """Whether the root holds the unpacked data set."""
    if class_name in FILES:
        return all((root / name).is_file() for name in FILES[class_name])
    return (root / FOLDERS[class_name]).is_dir()


def files(class_name: str, root: Path) -> list[Path]:
    """The files of the unpacked data set."""
    if class_name in FILES:
        return [root / name for name in FILES[class_name]]
    return sorted(path for path in (root / FOLDERS[class_name]).iterdir() if path.is_file())


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
    where = f"{root / needs(class_name)}".rstrip("/")
    chosen: dict[str, Any] = {"split": part} if class_name in FILES else {"train": part == "train"}
    try:
        dataset = cls(root, download=download, **chosen)
    except Exception as error:  # torchvision raises RuntimeError, OSError, URLError, UnpicklingError and others
        raise DataError(
            f"{where} cannot be read as torchvision's {class_name} ({error}); remove "
            f"{'both files' if class_name in FILES else 'the folder'} and fetch it again, for instance by {DOWNLOAD}"
        ) from error
    if count is not None and len(dataset) != count:
        raise DataError(f"{where} has {len(dataset)} {part} images; the data set has {count}")
    is_svhn = class_name in FILES
    labels = np.asarray(dataset.labels if is_svhn else dataset.targets, dtype=np.int64)
    wanted = np.ones(len(labels), bool) if classes is None else np.isin(labels, list(classes))
    pixels = np.asarray(dataset.data)[wanted]
    if is_svhn:  # channels first, and digits without names
        pixels = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
    if pixels.shape[1:] != (size, size, 3):  # another size, or grey
        squares = [to_rgb_square(Image.fromarray(image), size) for image in pixels]
        pixels = np.stack(squares) if squares else np.zeros((0, size, size, 3), np.uint8)
    names = map(str, range(10)) if is_svhn else dataset.classes
    return ImageSet(pixels, labels[wanted], tuple(names))
