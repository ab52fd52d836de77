"""Crops of the two photos that come with scikit-learn: real scenes, and frames of them."""

import io
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from proser_core.config import DataConfig

PHOTOS = [Image.fromarray(photo) for photo in load_sample_images().images]  # a temple, a flower
CONFIG = DataConfig(name="folder", image_size=16, padding=1, num_known=2, unknown_settings=(), development="none")
FRAMES = 4


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


def write_scenes(
    root: Path,
    name: str = "scene{scene}-{frame}.png",
    scenes: int = 8,
    frames: int = FRAMES,
    classes: tuple[str, str] = ("temple", "flower"),
) -> Path:
    """Two classes, temples and flowers, in bursts of four frames a scene or of another number."""
    for number in range(2 * scenes):
        for frame in range(frames):
            path = root / classes[number % 2] / name.format(scene=number, frame=frame)
            path.parent.mkdir(parents=True, exist_ok=True)
            scene(number, frame).save(path)
    return root
