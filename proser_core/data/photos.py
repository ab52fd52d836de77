"""What an image file is, before it is resized for a network: format, size and colour, what it looks like, and whether
it can be read at all."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Condition

import numpy as np
from PIL import Image

from proser_core.data.decoded_photos import LOOKS, PIXELS
from proser_core.data.decoding import (
    MAX_PIXELS,
    Failure,
    decoded_size,
    full_size,
    open_image,
    read_content,
    to_rgb_square,
)
from proser_core.data.near_duplicates import SIZE, Looks, looks_of
from proser_core.data.stored import digest_of, numbered
from proser_core.errors import DataError

AT_ONCE = 256
"""Files of which small images are in memory at a time."""
GREY_SPREAD = 3
"""The most shades, of 256, by which the channels of a grey image differ: formats with losses move them a little."""
BLOCK = 64 << 20
"""Bytes that Pillow asks for at once, for an image of as many: more than what malloc keeps for the thread when they are
freed. With Pillow's own 16 MB six threads held 2.1 GB after images of 64 megapixels, and with these 0.7 GB."""
PIXELS_OF_CORE = 16 << 20
"""Pixels that are decoded at a time for each core of a large machine; a usual photo has fewer."""
Progress = Callable[[int], None]
"""Called with the number of files that were read."""


@dataclass(frozen=True, slots=True)
class Photo:
    """An image file that can be read; a grey one may be saved in colour. `digest` is that of its content."""

    width: int
    height: int
    format: str
    is_grey: bool
    digest: bytes


def read_photos(
    paths: Sequence[str],
    progress: Progress = lambda done: None,
    size: int = SIZE,
    keep: Callable[[np.ndarray], object] = lambda image: None,
) -> tuple[list[Photo | Failure], Looks]:
    """What each file is, or why it cannot be read; and the looks of those that can, in their order. Each is decoded
    once: `keep` is called with uint8[size, size, 3] of those that can be read.

    Memory holds AT_ONCE images of this size, and those that are being decoded, as of `opened`.
    """
    Image.core.set_block_size(BLOCK)  # type: ignore[attr-defined]
    found: list[Photo | Failure] = []
    looks = [Looks(np.zeros(0, np.uint64), np.zeros((0, SIZE * SIZE // 4), np.uint8))]
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(paths), AT_ONCE):
            some = list(pool.map(partial(_read, size=size), paths[start : start + AT_ONCE]))
            found += [photo for photo, _ in some]
            read = [pixels for _, pixels in some if pixels is not None]
            if read:
                looks.append(looks_of(np.stack([small for small, _ in read])))
            for _, image in read:
                keep(image)
            progress(len(found))
    return found, Looks(*(np.concatenate(parts) for parts in zip(*looks, strict=True)))


def _read(path: str, size: int) -> tuple[Photo | Failure, tuple[np.ndarray, np.ndarray] | None]:
    """What the file is, and its pixels for the looks and in this size."""
    try:
        with opened(path) as (image, content):
            (width, height), kind = full_size(image), str(image.format)
            small = to_rgb_square(image, SIZE)
            pixels = small if size == SIZE else to_rgb_square(image, size)
    except DataError as error:
        return Failure(path, str(error)), None
    is_grey = bool(np.ptp(small, axis=2).max() <= GREY_SPREAD)
    return Photo(width, height, kind, is_grey, digest_of(content)), (small, pixels)


def save_photos(paths: Sequence[str], size: int, folder: Path, progress: Progress = lambda done: None) -> None:
    """Decode all files into `folder`, as `DecodedPhotos` reads them. Raises DataError with what is wrong where some
    cannot be read, OSError where the disk is full."""
    with (folder / PIXELS).open("wb") as file:
        found, looks = read_photos(paths, progress, size, lambda image: file.write(image.data))
    digests = [each.digest for each in found if isinstance(each, Photo)]
    np.savez(folder / LOOKS, **looks._asdict(), contents=numbered(digests))
    if failures := [each.reason for each in found if isinstance(each, Failure)]:
        more = f"; {len(failures) - 1:,} more cannot be read" if len(failures) > 1 else ""
        raise DataError(f"{failures[0]}{more}")


@contextmanager
def opened(path: str) -> Iterator[tuple[Image.Image, bytes]]:
    """An image file, and its content. Threads that are in this block have at most MAX_PIXELS to decode between them,
    or PIXELS_OF_CORE for each core. Raises DataError as `read_content` and `open_image`."""
    content = read_content(Path(path))
    assert content is not None
    with open_image(content, path) as image, _room.taken(math.prod(decoded_size(image))):
        yield image, content


class _Room:
    """Pixels that threads may have in memory, together."""

    def __init__(self, pixels: int) -> None:
        self._free, self._changed = pixels, Condition()

    @contextmanager
    def taken(self, pixels: int) -> Iterator[None]:
        """Wait until there are so many, and take them."""
        with self._changed:
            self._changed.wait_for(lambda: self._free >= pixels)
            self._free -= pixels
        try:
            yield
        finally:
            with self._changed:
                self._free += pixels
                self._changed.notify_all()


_room = _Room(max(MAX_PIXELS, PIXELS_OF_CORE * (os.cpu_count() or 1)))
