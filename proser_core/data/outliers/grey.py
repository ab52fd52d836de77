"""Outlier sets for MNIST: Omniglot, noise, and MNIST's test images over noise.

All are made at MNIST's own 28 pixels in one shade over the three channels, and brought to another size as MNIST is:
neither polarity, colour nor sharpness gives them away.
"""

from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from proser_core.data.catalogue import SOURCES
from proser_core.data.data_sets import DataSet, open_data_set
from proser_core.data.decoding import decode_all, decode_square, to_rgb_square
from proser_core.data.outliers.places import Encoded, OutlierSource, Place, place_on_disk
from proser_core.data.readers.parquet import find_shards
from proser_core.rng import keyed_generator

MNIST_SIZE = 28
OMNIGLOT_FOLDER = Path("omniglot-py/images_evaluation")
OMNIGLOT_SIZE = 105
NUM_OMNIGLOT = 13_180


def find_omniglot(data_dir: Path | None) -> Place | None:
    """The evaluation part, 20 alphabets, which is `test` in Parquet."""
    if data_dir is None:
        return None
    hub, folder = data_dir / "omniglot", data_dir / OMNIGLOT_FOLDER
    if shards := find_shards(hub, "test"):
        return place_on_disk("parquet", hub, shards, NUM_OMNIGLOT, _omniglot)
    return place_on_disk("torchvision", folder, [], NUM_OMNIGLOT, _omniglot) if folder.is_dir() else None


def find_noise(_: Path | None) -> Place:
    """Every pixel drawn by itself, evenly over all shades (the paper's Noise)."""
    return Place("generated", lambda rows, size: _squares(_noise(rows), size), list)


def find_mnist_noise(data_dir: Path | None) -> Place | None:
    """MNIST's test images over the paper's Noise: white ink, which covers as much as it is bright."""
    mnist = open_data_set("mnist", data_dir)
    return (
        Place("generated", partial(_mnist_noise, mnist), mnist.fingerprints, mnist.num_images("test"))
        if mnist.layout
        else None
    )


def _noise(rows: np.ndarray) -> np.ndarray:
    """uint8[n, 28, 28]; each row is drawn by itself."""
    shape = (MNIST_SIZE, MNIST_SIZE)
    drawn = [keyed_generator(0, "outliers noise", int(row)).integers(0, 256, shape, np.uint8) for row in rows]
    return np.stack(drawn) if drawn else np.zeros((0, *shape), np.uint8)


def _mnist_noise(mnist: DataSet, rows: np.ndarray, size: int) -> np.ndarray:
    digits = mnist.load("test", size=MNIST_SIZE).images
    assert isinstance(digits, np.ndarray)
    ink = digits[rows, :, :, 0] / 255
    over = 255 * ink + (1 - ink) * _noise(rows)
    return _squares(np.round(over).astype(np.uint8), size)


def _squares(grey: np.ndarray, size: int) -> np.ndarray:
    return decode_all(lambda row: to_rgb_square(Image.fromarray(grey[row]), size), len(grey), size)


def _omniglot(image: Encoded, size: int) -> np.ndarray:
    """Inverted, because Omniglot is black on white and MNIST white on black."""
    grey = Image.fromarray(decode_square(image.content, OMNIGLOT_SIZE, image.name)).convert("L")
    small = ImageOps.invert(grey).resize((MNIST_SIZE, MNIST_SIZE), Image.Resampling.BICUBIC)
    return to_rgb_square(small, size)


SETS = (
    OutlierSource(
        "omniglot",
        needs=f"omniglot/test-*.parquet, or torchvision's {OMNIGLOT_FOLDER}/ALPHABET/CHARACTER/*.png",
        find=find_omniglot,
        origin="github.com/brendenlake/omniglot (python/images_evaluation.zip), 6 MB, MIT licence",
    ),
    OutlierSource(
        "mnist-noise",
        needs=SOURCES["mnist"].needs,
        find=find_mnist_noise,
        origin=SOURCES["mnist"].origin,
        made_of=("mnist", "noise"),
    ),
    OutlierSource("noise", "nothing", find_noise),
)
