"""Crops of the two photos that come with scikit-learn: real scenes, and frames of them."""

import io

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

PHOTOS = [Image.fromarray(photo) for photo in load_sample_images().images]  # a temple, a flower


def scene(number: int, frame: int = 0) -> Image.Image:
    """A crop of one of two photos that shows more than sky; further frames of it are shifted by 1 % of its width."""
    generator, side, photo = np.random.default_rng(number), 120, PHOTOS[number % 2]
    while True:
        x, y = (int(generator.integers(0, length - side - 10)) for length in photo.size)
        if np.std(photo.crop((x, y, x + side, y + side)).convert("L")) > 30:
            return photo.crop((x + frame, y, x + frame + side, y + side))


def as_jpeg(image: Image.Image) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=50)
    return Image.open(file)
