"""`ImageSet`: labelled images of one size and in RGB, wherever they came from; and images that memory does not hold."""

import io
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.TiffImagePlugin import BITSPERSAMPLE

from proser_core.errors import DataError, ImageTooLargeError

if TYPE_CHECKING:
    from proser_core.data.stored import StoredImages

MAX_PIXELS = 64 << 20
"""Pixels of the largest image that is decoded; a few bytes can claim more than memory holds."""
RANGELESS = {"I": "signed or 32-bit integers", "F": "floating-point numbers"}
"""Pixels, by Pillow's mode, of which no file says which values are black and white; see `opened_image`."""
warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # such an image is refused by its size
warnings.filterwarnings("ignore", "Corrupt EXIF data")  # what can be read of such an image is taken


class ImageSource(Protocol):
    """N images that do not lie in memory: asked for by row, handed over batch by batch."""

    @property
    def size(self) -> int:
        """Height and width in pixels."""

    def __len__(self) -> int: ...

    def batches(self, rows: np.ndarray, batch_size: int) -> Generator[np.ndarray, None, None]:
        """uint8[b, size, size, 3]: the images of `rows` int64[n] in this order, `batch_size` at a time, then the rest.

        One who stops before the end closes the iterator. Raises DataError for an image that cannot be read.
        """


@dataclass(frozen=True)
class ImageSet:
    """Images uint8[N, H, W, 3], or still encoded on disk; labels int64[N] that index `class_names`."""

    images: "np.ndarray | StoredImages"
    labels: np.ndarray
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if isinstance(self.images, np.ndarray) and (
            self.images.ndim != 4 or self.images.shape[3] != 3 or self.images.dtype != np.uint8
        ):
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
    """uint8[size, size, 3]: turned as EXIF says, in RGB, another size resampled with antialiasing.

    Grey becomes RGB, 16 bits become 8, what is transparent lies on white; of an animation the first frame is taken.
    Pixels of 32 bits must hold 16, as those of a PGM file do: `opened_image` refuses the others.
    """
    is_twelve_bits = getattr(image, "tag_v2", {}).get(BITSPERSAMPLE) == (12,)  # Pillow leaves them as they are
    image = ImageOps.exif_transpose(image)
    if image.mode == "I" or image.mode.startswith("I;16"):  # Pillow would clip every shade above 255
        image = Image.fromarray((np.asarray(image) // (16 if is_twelve_bits else 257)).astype(np.uint8))
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    if image.mode != "RGB":
        image = image.convert("RGB")
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(image)


def decode_square(encoded: bytes | None, size: int, name: str) -> np.ndarray:
    """uint8[size, size, 3] of an image file's content.

    Raises DataError, with `name`, where it is no image, or one of RANGELESS pixels; ImageTooLargeError for one of more
    than MAX_PIXELS.
    """
    with opened_image(encoded, name) as image:
        return to_rgb_square(image, size)


def count_pixels(encoded: bytes | None, name: str) -> int:
    """Of an image file's content, by its header alone. Raises as `decode_square`."""
    with opened_image(encoded, name) as image:
        return image.width * image.height


@contextmanager
def opened_image(encoded: bytes | None, name: str) -> Iterator[Image.Image]:
    """An image file's content, opened. Raises as `decode_square`, whatever is done with the image in the block."""
    try:
        with Image.open(io.BytesIO(encoded or b"")) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ImageTooLargeError(
                    f"{name}: the image has {image.width} x {image.height} pixels, more than {MAX_PIXELS:,}; "
                    "make it smaller or remove it"
                )
            if image.mode in RANGELESS and (image.format, image.mode) != ("PPM", "I"):  # Pillow scales PGM to 16 bits
                raise DataError(
                    f"{name}: the image has {RANGELESS[image.mode]} as pixels, and does not say which are black and "
                    "white; save it with 8 or 16 bits a channel, or remove it"
                )
            yield image
    except DataError:
        raise
    except Image.DecompressionBombError as error:  # Pillow's own limit, where a header claims even more
        raise ImageTooLargeError(f"{name}: the image has too many pixels ({error}); make it smaller") from error
    except Exception as error:  # whatever a damaged file makes of Pillow's readers: struct.error of EXIF, and others
        reason: object = error
        if isinstance(error, UnidentifiedImageError):  # its own words name the buffer
            reason = "it is no image that Pillow knows" if encoded else "it is empty"
        raise DataError(f"{name}: the image cannot be decoded ({reason}); mend or remove it") from error
