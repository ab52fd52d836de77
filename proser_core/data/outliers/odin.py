"""ODIN's outlier sets for CIFAR10 (Liang et al. 2018): test images of Tiny-ImageNet and LSUN, cropped or resized to 32.

Its released folders hold 10,000 images each, at any depth, or in Parquet files as on the Hugging Face Hub. Those of the
crops have 36 pixels (as its code notes); the field takes their middle 32 (`CenterCrop(32)`), and so do we.

Where a folder is missing, the set is made again from what ODIN made it of: unlabelled test images of Tiny-ImageNet, or
those of LSUN, which have any size. ODIN's own crops and its way of resizing are not published, so this is another draw:
it says so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from proser_core.data.catalogue import SOURCES
from proser_core.data.decoding import open_image, to_rgb_square
from proser_core.data.outliers.places import Encoded, OutlierSource, Place, place_on_disk
from proser_core.data.readers.parquet import find_shards
from proser_core.data.readers.tiny_imagenet import FOLDER as TINY
from proser_core.errors import DataError
from proser_core.rng import keyed_generator

SIZE = 32  # of CIFAR10's images
COUNT = 10_000
PIXELS = {"crop": 36, "resize": SIZE}  # of ODIN's own images
Cut = Callable[[Image.Image, int], Image.Image]
"""Cuts, from the image at a row, the part that is then resampled to the asked size."""


@dataclass(frozen=True)
class Raw:
    """Images of which ODIN made a crop and a resize, and from which we make them again."""

    folder: str
    origin: str


RAW = {
    "imagenet": Raw(f"{TINY}/test/images", SOURCES["tiny-imagenet"].origin),
    "lsun": Raw(
        "lsun-test",
        "dl.yf.io/lsun/scenes/test_lmdb.zip, 172 MB, no licence stated; docs/data-sets.md writes them to files",
    ),
}


def _find(name: str, folder: str, way: str, raw: Raw, data_dir: Path | None) -> Place | None:
    if data_dir is None:
        return None
    released, source = data_dir / folder, data_dir / raw.folder
    if released.is_dir():
        decode = partial(_decode, _middle if way == "crop" else _whole)
        return place_on_disk("ODIN's folder", released, find_shards(released, ""), COUNT, decode)
    if source.is_dir():
        decode = partial(_decode, _random(name) if way == "crop" else _resized)
        done = {
            "crop": f"a random crop of {SIZE} pixels from each of {raw.folder}",
            "resize": f"those of {raw.folder}, resampled to {SIZE} pixels with antialiasing",
        }
        note = f"re-created, not ODIN's own images: {done[way]}"
        return place_on_disk("re-created", source, find_shards(source, ""), COUNT, decode, note)
    return None


def _decode(cut: Cut, encoded: Encoded, size: int) -> np.ndarray:
    with open_image(encoded.content, encoded.name) as image:
        if min(image.size) < SIZE:
            raise DataError(f"{encoded.name} has {image.width} x {image.height} pixels; need {SIZE} or more")
        return to_rgb_square(cut(image, encoded.row), size)


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


def _odin_set(kind: str, way: str, folder: str) -> OutlierSource:
    """In ODIN's `folder`, or else in that of the raw images; `way` is crop or resize."""
    name, raw, pixels = f"{kind}-{way}", RAW[kind], PIXELS[way]
    megabytes = round(COUNT * pixels * pixels * 3 / 1e6)
    return OutlierSource(
        name,
        needs=f"ODIN's {folder}/ with {COUNT:,} images, loose or in *.parquet, or {raw.folder}/ with as many raw ones",
        find=partial(_find, name, folder, way, raw),
        origin=f"github.com/facebookresearch/odin, {COUNT:,} images of {pixels} x {pixels}, some {megabytes} MB before "
        f"compression, no licence stated; the raw ones at {raw.origin}",
        classes_of="tiny-imagenet" if kind == "imagenet" else kind,
    )


SETS = (
    _odin_set("imagenet", "crop", "Imagenet"),
    _odin_set("imagenet", "resize", "Imagenet_resize"),
    _odin_set("lsun", "crop", "LSUN"),
    _odin_set("lsun", "resize", "LSUN_resize"),
)
