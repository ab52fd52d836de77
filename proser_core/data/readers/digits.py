"""scikit-learn's handwritten digits: real images that need no download.

1,797 grey images of 8x8 pixels. The package has no test part, so a fixed draw sets a third of every class apart.
"""

import numpy as np
from PIL import Image

from proser_core.data.decoding import to_rgb_square
from proser_core.data.image_sets import ImageSet
from proser_core.rng import keyed_generator

NUM_TEST = 599
NUM_TRAIN = 1797 - NUM_TEST
WHITE = 16.0  # brightest value of the original pixels


def read(part: str, size: int) -> ImageSet:
    """The train or the test part, resampled to `size` pixels."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    test_rows = np.zeros(len(digits.target), dtype=bool)
    generator = keyed_generator(0, "digits test part")
    for label in range(10):
        rows = generator.permutation(np.flatnonzero(digits.target == label))
        test_rows[rows[: round(len(rows) / 3)]] = True
    rows = np.flatnonzero(test_rows if part == "test" else ~test_rows)
    grey = np.round(digits.images[rows] * (255 / WHITE)).astype(np.uint8)
    images = np.stack([to_rgb_square(Image.fromarray(image), size) for image in grey])
    return ImageSet(images, digits.target[rows].astype(np.int64), tuple(str(label) for label in range(10)))
