"""Reader of image folders: ROOT/CLASS/*, or ROOT/train/CLASS/* and beside it val/ and test/; any depth below a class.

Without test/ a fifth of each class's images is kept for the test; without val/ the preparation draws one. Classes are
numbered in the order of their sorted names. What is hidden, or has none of ENDINGS, is not an image.
"""

import hashlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from proser_core.data.image_sets import ImageSet
from proser_core.data.stored import PLACE, WHOLE_FILE, StoredImages
from proser_core.errors import DataError

PARTS = ("train", "val", "test")
TEST_SHARE = 5  # one of so many images is kept for the test where there is no test/
LEAST = 3  # images of a class from which training, validation and test each get one
ENDINGS = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
Image = tuple[str, int, int]  # absolute path, bytes, time of change


def is_present(root: Path) -> bool:
    """Whether the root has folders with images in them."""
    return has_part(root, "train") or any(_holds_image(root / name) for name in _subfolders(root))


def has_part(root: Path, part: str) -> bool:
    """Whether the root keeps the images of a part in a folder of their own."""
    return bool(_subfolders(root / "train")) and bool(_subfolders(root / part))


def class_names(root: Path) -> tuple[str, ...]:
    """The classes by number. Raises DataError where the parts have different ones."""
    if not has_part(root, "train"):
        return tuple(_subfolders(root))
    train = _subfolders(root / "train")
    for part in PARTS[1:]:
        if not has_part(root, part):
            continue
        other = _subfolders(root / part)
        for name in sorted({*train} ^ {*other}):
            has, lacks = ("train", part) if name in train else (part, "train")
            raise DataError(
                f"{root} has {has}/{name} and no {lacks}/{name}; every class needs images of its own in each part"
            )
    return tuple(train)


def index(root: Path, part: str, *, size: int, classes: Collection[int] | None = None) -> ImageSet:
    """The images of `classes` (default: all), still encoded. Raises DataError for a class without one."""
    files, lengths, labels = [], [], []
    for label, name in enumerate(class_names(root)):
        if classes is None or label in classes:
            for path, length, _ in _images(root, part, name):
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
    """Name, bytes, and a digest of names, sizes and times of change of the images, for each part of each class."""
    found = []
    for part in PARTS:
        if part == "val" and not has_part(root, part):
            continue
        for name in class_names(root):
            images, digest = _images(root, part, name), hashlib.sha256()
            for path, length, changed in images:
                digest.update(f"{os.path.relpath(path, root)}\0{length}\0{changed}\0".encode(errors="surrogateescape"))
            found.append((f"{part}/{name}", sum(length for _, length, _ in images), digest.hexdigest()))
    return found


def _subfolders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _holds_image(folder: Path) -> bool:
    return any(each.name.lower().endswith(ENDINGS) for each in files_below(os.path.abspath(folder)))


def _images(root: Path, part: str, name: str) -> list[Image]:
    """The images of a class in a part, in the order of their paths. Raises DataError where there are too few."""
    if part != "train" and has_part(root, part):
        return _all_images(root / part / name)
    folder = root / "train" / name if has_part(root, "train") else root / name
    images = _all_images(folder)
    if has_part(root, "test"):
        return images
    if len(images) < LEAST:
        raise DataError(
            f"{folder} holds {len(images)} image(s); a class needs {LEAST} or more, to train, to calibrate and to test "
            "with. Add some, or remove the folder"
        )
    tested = set(sorted(images, key=lambda image: _digest(image, root))[: max(1, len(images) // TEST_SHARE)])
    return [image for image in images if (image in tested) == (part == "test")]


def _digest(image: Image, root: Path) -> str:
    """By which test images are drawn: it depends on the path below the root alone, so that a draw hardly changes
    when images are added."""
    return hashlib.sha256(os.path.relpath(image[0], root).encode(errors="surrogateescape")).hexdigest()


def _all_images(folder: Path) -> list[Image]:
    entries = (each for each in files_below(os.path.abspath(folder)) if each.name.lower().endswith(ENDINGS))
    images = [(each.path, each.stat().st_size, each.stat().st_mtime_ns) for each in entries]
    if not images:
        raise DataError(
            f"{folder} holds no image ({', '.join(ENDINGS)}); add some, or remove the class from every part"
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
