"""Reader of image folders: ROOT/train/CLASS/* and ROOT/test/CLASS/*, at any depth below the class.

Classes are numbered in the order of their sorted names. What is hidden, or has none of ENDINGS, is not an image.
"""

import hashlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from proser_core.data.image_sets import ImageSet
from proser_core.data.stored import PLACE, WHOLE_FILE, StoredImages
from proser_core.errors import DataError

PARTS = ("train", "test")
ENDINGS = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


def is_present(root: Path) -> bool:
    """Whether the root has a part with folders in it."""
    return bool(_subfolders(root / "train"))


def class_names(root: Path) -> tuple[str, ...]:
    """The classes by number. Raises DataError where there is none, or where the parts have different ones."""
    train, test = (_subfolders(root / part) for part in PARTS)
    if not train:
        raise DataError(
            f"{root / 'train'} holds no class; need a folder of images for each, train/CLASS and test/CLASS"
        )
    for name in sorted({*train} ^ {*test}):
        has, lacks = PARTS if name in train else reversed(PARTS)
        raise DataError(
            f"{root} has {has}/{name} and no {lacks}/{name}; every class needs images of its own in both parts"
        )
    return tuple(train)


def index(root: Path, part: str, *, size: int, classes: Collection[int] | None = None) -> ImageSet:
    """The images of `classes` (default: all), still encoded. Raises DataError for a class without one."""
    files, lengths, labels = [], [], []
    for label, name in enumerate(class_names(root)):
        if classes is None or label in classes:
            for path, length, _ in _images(root / part / name):
                files.append(os.fsencode(path))
                lengths.append(length)
                labels.append(label)
    places = np.zeros(len(files), PLACE)
    places["file"], places["row"], places["length"] = np.arange(len(files)), WHOLE_FILE, lengths
    return ImageSet(
        StoredImages(np.array(files, np.bytes_), places, size), np.array(labels, np.int64), class_names(root)
    )


def read(root: Path, part: str, *, size: int, classes: Collection[int] | None = None) -> ImageSet:
    """The same images, decoded. Raises DataError, with the file, for one that cannot be decoded."""
    stored = index(root, part, size=size, classes=classes)
    assert isinstance(stored.images, StoredImages)
    return ImageSet(stored.images.read(np.arange(len(stored))), stored.labels, stored.class_names)


def fingerprints(root: Path) -> list[tuple[str, int, str]]:
    """Name, bytes, and a digest of names, sizes and times of change of the images, for each folder of a class."""
    found = []
    for part in PARTS:
        for name in class_names(root):
            images, digest = list(_images(root / part / name)), hashlib.sha256()
            for path, length, changed in images:
                digest.update(f"{os.path.relpath(path, root)}\0{length}\0{changed}\0".encode(errors="surrogateescape"))
            found.append((f"{part}/{name}", sum(length for _, length, _ in images), digest.hexdigest()))
    return found


def _subfolders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _images(folder: Path) -> list[tuple[str, int, int]]:
    """Absolute path, bytes and time of change of the images of a class. Raises DataError where there is none."""
    entries = (each for each in files_below(os.path.abspath(folder)) if each.name.lower().endswith(ENDINGS))
    images = [(each.path, each.stat().st_size, each.stat().st_mtime_ns) for each in entries]
    if not images:
        raise DataError(
            f"{folder} holds no image ({', '.join(ENDINGS)}); add some, or remove the class from both parts"
        )
    return images


def files_below(folder: str, above: frozenset[tuple[int, int]] = frozenset()) -> "Iterator[os.DirEntry[str]]":
    """Files at any depth but hidden ones, sorted by name in each folder; a link back to a folder above is not followed.

    Raises DataError for a folder that cannot be read.
    """
    try:
        about = os.stat(folder)
        here = (about.st_dev, about.st_ino)
        if here in above:
            return
        with os.scandir(folder) as entries:
            listed = sorted((each for each in entries if not each.name.startswith(".")), key=lambda each: each.name)
    except OSError as error:
        raise DataError(f"{folder} cannot be read ({error.strerror}); give a folder that you may read") from error
    for entry in listed:
        if entry.is_dir():
            yield from files_below(entry.path, above | {here})
        else:
            yield entry
