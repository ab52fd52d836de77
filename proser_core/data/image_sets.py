"""`ImageSet`: labelled RGB images of one size; and `ImageSource`: images that do not fit into memory."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from proser_core.data.stored import StoredImages
from proser_core.errors import DataError


class ImageSource(Protocol):
    """N images that do not fit into memory: requested by row, returned in batches."""

    @property
    def size(self) -> int:
        """Height and width in pixels."""

    def __len__(self) -> int: ...

    def batches(self, rows: np.ndarray, batch_size: int) -> Generator[np.ndarray, None, None]:
        """uint8[b, size, size, 3]: the images of `rows` int64[n] in this order, `batch_size` at a time, then the rest.

        A caller that stops before the end closes the iterator. Raises DataError for an image that cannot be read.
        """


def image_size(images: np.ndarray | ImageSource) -> int:
    """Height and width in pixels."""
    return images.shape[1] if isinstance(images, np.ndarray) else images.size


def check_pixels(images: np.ndarray) -> None:
    """Raises DataError for what is not uint8[N, H, W, 3]."""
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise DataError(
            f"images are {images.dtype}{images.shape}; need uint8[N, height, width, 3]: multiply those in 0..1 by 255, "
            "and repeat the channel of grey images"
        )


def chunks(images: np.ndarray | ImageSource, length: int = 256) -> Iterator[np.ndarray]:
    """All images in order, `length` at a time."""
    if not isinstance(images, np.ndarray):
        return images.batches(np.arange(len(images)), length)
    return (images[start : start + length] for start in range(0, len(images), length))


@dataclass(frozen=True)
class ImageSet:
    """Images uint8[N, H, W, 3], or still encoded on disk; labels int64[N] that index `class_names`.

    `groups` int64[N] says which images belong together, with the same numbers in every part of a data set; None where
    nobody asked. `contents` uint64[N] are digests of the files of a user's own photos, the same at every size; of
    images on disk they are taken by `digests`.
    """

    images: np.ndarray | StoredImages
    labels: np.ndarray
    class_names: tuple[str, ...]
    groups: np.ndarray | None = None
    contents: np.ndarray | None = None

    def __post_init__(self) -> None:
        if isinstance(self.images, np.ndarray):
            check_pixels(self.images)
        if self.labels.shape != (len(self.images),):
            raise DataError(f"{len(self.images)} images have labels of shape {self.labels.shape}")
        if len(self.labels) and not 0 <= self.labels.min() <= self.labels.max() < len(self.class_names):
            raise DataError(
                f"labels run from {self.labels.min()} to {self.labels.max()}; need 0 to {len(self.class_names) - 1}, "
                f"as {len(self.class_names)} classes are named"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def digests(self) -> np.ndarray | None:
        """The `contents`; for those of images on disk, their files are read. Raises DataError where one cannot be."""
        return self.images.contents if isinstance(self.images, StoredImages) else self.contents

    def select(self, rows: np.ndarray) -> "ImageSet":
        """The images at `rows` (indices or a mask)."""
        groups, contents = (None if each is None else each[rows] for each in (self.groups, self.contents))
        return ImageSet(self.images[rows], self.labels[rows], self.class_names, groups, contents)

    def joined(self, others: "ImageSet") -> "ImageSet":
        """These images and then others of the same data set, which are decoded or encoded as these are."""
        labels = np.concatenate([self.labels, others.labels])
        more = joined_arrays(self.groups, others.groups), joined_arrays(self.contents, others.contents)
        if isinstance(self.images, StoredImages):
            assert isinstance(others.images, StoredImages)
            return ImageSet(self.images.joined(others.images), labels, self.class_names, *more)
        assert isinstance(others.images, np.ndarray)
        return ImageSet(np.concatenate([self.images, others.images]), labels, self.class_names, *more)


def joined_arrays(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    """What is known of both, in order; None where it is not known of one."""
    return None if first is None or second is None else np.concatenate([first, second])
