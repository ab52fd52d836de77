"""`ImageSet`: labelled images in memory, of one size and in RGB, wherever they came from."""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from proser_core.errors import DataError


@dataclass(frozen=True)
class ImageSet:
    """Images uint8[N, H, W, 3], labels int64[N] that index `class_names`."""

    images: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.shape[3] != 3 or self.images.dtype != np.uint8:
            raise DataError(f"images are {self.images.dtype}{self.images.shape}; need uint8[N, height, width, 3]")
        if self.labels.shape != (len(self.images),):
            raise DataError(f"{len(self.images)} images have labels of shape {self.labels.shape}")
        if len(self.labels) and not 0 <= self.labels.min() <= self.labels.max() < len(self.class_names):
            raise DataError(
                f"labels run from {self.labels.min()} to {self.labels.max()}; need 0 to {len(self.class_names) - 1}, "
                f"as {len(self.class_names)} classes are named"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: np.ndarray) -> "ImageSet":
        """The images at `rows` (indices or a mask)."""
        return ImageSet(self.images[rows], self.labels[rows], self.class_names)


def to_rgb_square(image: Image.Image, size: int) -> np.ndarray:
    """uint8[size, size, 3]: grey becomes RGB; another size is resampled with antialiasing."""
    if image.mode.startswith("I;16"):  # Pillow would clip every shade above 255
        image = Image.fromarray((np.asarray(image) // 257).astype(np.uint8))
    if image.mode != "RGB":
        image = image.convert("RGB")
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(image)
