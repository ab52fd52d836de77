"""ODIN's outlier sets for CIFAR10 (Liang et al. 2018): test images of Tiny-ImageNet and LSUN, cropped or resized to 32.

Its released folders hold 10,000 images each, below `test/` or wherever in them. Those of the crops have 36 pixels
(as its code notes); the field takes their middle 32 (`CenterCrop(32)`), and so do we.

Where a folder of the ImageNet sets is missing, the set is made again from Tiny-ImageNet's unlabelled test images, from
which ODIN made it. ODIN's own crops and its way of resizing are not published, so this is another draw: it says so.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from proser_core.data.image_sets import opened_image, to_rgb_square
from proser_core.data.places import Find, Fingerprints, Place, decoded, files_fingerprint, image_paths
from proser_core.data.tiny_imagenet import FOLDER as TINY
from proser_core.data.tiny_imagenet import content
from proser_core.errors import DataError
from proser_core.rng import keyed_generator

SIZE = 32  # of CIFAR10's images
COUNT = 10_000
ORIGIN = "linked at github.com/facebookresearch/odin, without a licence of its own"
Cut = Callable[[Image.Image, int], Image.Image]  # of the image at a row, what is brought to the asked size
RECREATED = {
    "crop": f"re-created, not ODIN's own images: a random crop of 32 pixels from each of {TINY}/test",
    "resize": f"re-created, not ODIN's own images: those of {TINY}/test, resampled to 32 pixels with antialiasing",
}


def needs(folder: str, *, from_tiny: bool) -> str:
    """What a set is read from, for people."""
    return f"ODIN's {folder}/ with {COUNT:,} images" + f", or {TINY}/test/images/" * from_tiny


def finder(name: str, folder: str, way: str, *, from_tiny: bool) -> Find:
    """Of the set `name` in ODIN's `folder`; `way` is crop or resize."""
    return partial(_find, name, folder, way, from_tiny)


def _find(name: str, folder: str, way: str, from_tiny: bool, data_dir: Path | None) -> Place | None:
    if data_dir is None:
        return None
    released, unlabelled = data_dir / folder, data_dir / TINY / "test" / "images"
    if released.is_dir():
        read = partial(_read, released, _middle if way == "crop" else _whole)
        return Place("ODIN's folder", read, partial(_fingerprints, released), COUNT)
    if from_tiny and unlabelled.is_dir():
        read = partial(_read, unlabelled, _random(name) if way == "crop" else _resized)
        return Place("re-created", read, partial(_fingerprints, unlabelled), COUNT, RECREATED[way])
    return None


def _fingerprints(folder: Path) -> Fingerprints:
    return [files_fingerprint(folder.name, image_paths(folder), folder)]


def _read(folder: Path, cut: Cut, rows: np.ndarray, size: int) -> np.ndarray:
    paths = image_paths(folder)
    if len(paths) != COUNT:
        raise DataError(f"{folder} holds {len(paths)} images; need {COUNT}. Unpack it again")

    def decode(position: int) -> np.ndarray:
        path = paths[rows[position]]
        with opened_image(content(path), path) as image:
            if min(image.size) < SIZE:
                raise DataError(f"{path} has {image.width} x {image.height} pixels; need {SIZE} or more")
            return to_rgb_square(cut(image, int(rows[position])), size)

    return decoded(decode, len(rows), size)


def _whole(image: Image.Image, _: int) -> Image.Image:
    return image


def _middle(image: Image.Image, _: int) -> Image.Image:
    return _crop(image, (image.width - SIZE) // 2, (image.height - SIZE) // 2)


def _resized(image: Image.Image, _: int) -> Image.Image:
    return Image.fromarray(to_rgb_square(image, SIZE))


def _random(name: str) -> Cut:
    """One crop for each image, whichever of them are drawn."""
    corners = keyed_generator(0, f"outliers {name} corners").random((COUNT, 2))

    def cut(image: Image.Image, row: int) -> Image.Image:
        left, top = (corners[row] * (image.width - SIZE + 1, image.height - SIZE + 1)).astype(int)
        return _crop(image, int(left), int(top))

    return cut


def _crop(image: Image.Image, left: int, top: int) -> Image.Image:
    return image.crop((left, top, left + SIZE, top + SIZE))
