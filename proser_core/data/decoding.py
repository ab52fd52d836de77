"""Image files to pixels: RGB, one size, eight bits."""

import ctypes
import io
import logging
import math
import re
import struct
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
from PIL.TiffImagePlugin import (
    BITSPERSAMPLE,
    PHOTOMETRIC_INTERPRETATION,
    PREFIXES,
    STRIPOFFSETS,
    TILELENGTH,
    TILEOFFSETS,
    TILEWIDTH,
)
from PIL.TiffTags import LONG, SHORT

from proser_core.errors import DataError, ImageTooLargeError

MAX_PIXELS = 64 << 20
"""Pixels of the largest image that is decoded; a few bytes can claim more than memory holds. A larger JPEG, as of a
camera of 100 megapixels, is decoded at a half, a quarter or an eighth of its width."""
MAX_SIDE = 65_535
"""Pixels of the longest side, as a JPEG has it. Resizing takes 32 bytes for each, however narrow the image is."""
MAX_SCANS = 100
"""The most scans of a JPEG, as in libtiff; honest ones have about ten. A scan of 23 bytes costs a pass over the whole
image."""
SCAN = re.compile(rb"\xff\xda\0(?:\x08\x01|\x0a\x02|\x0c\x03|\x0e\x04)")
"""How a scan of one to four channels begins. Its first two bytes alone are also in any video behind a picture."""
EXIF = b"Exif\0\0"
MAX_EXIF = 100
"""Blocks of EXIF, at most, in a JPEG; one is usual. Pillow joins them in a time by the square of their number."""
MAX_COMMENTS = 100
"""Lines of comments, at most, in a PPM of text: Pillow takes time by the square of their number."""
MAX_TILES = 1 << 16
"""Strips or tiles, at most, of a TIFF; Pillow lists all of an uncompressed one, in 10 microseconds each."""
PLAIN_PPM = (b"P1", b"P2", b"P3")
FULL_SIZE, TRANSPARENCY = "full size", "transparency"  # of an image's `info`
SCALES = {"L;2": 85, "L;4": 17, "RGB;16B": 1 / 256}
"""Factors by which Pillow multiplies the pixels of a PNG of 2, 4 and 16 bits, and not the value that is transparent."""
EMPTY = "it is empty"
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""What Pillow may take an image for. Its other readers would start Ghostscript, or decode before the size is known."""
RANGELESS = {"I": "signed or 32-bit integers", "F": "floating-point numbers"}
"""Pixels, by Pillow's mode, of which no file says which values are black and white; see `open_image`."""
warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # such an image is refused by its size
warnings.filterwarnings("ignore", module=r"PIL\.")  # of damaged EXIF and tags: what can be read of an image is taken
logging.getLogger("PIL").addHandler(logging.NullHandler())  # as to why it cannot be read, an error says that
with suppress(AttributeError):  # libtiff prints lines without the file's name; some builds hide its functions
    ctypes.CDLL(Image.core.__file__).TIFFSetErrorHandler(None)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Failure:
    """An image that was skipped, and why."""

    name: str
    reason: str


def to_rgb_square(image: Image.Image, size: int) -> np.ndarray:
    """uint8[size, size, 3]: turned as EXIF says, in RGB, another size resampled with antialiasing.

    Grey becomes RGB, 16 bits become 8, what is transparent lies on white; of an animation the first frame is taken.
    Pixels of 32 bits must hold 16, as those of a PGM file do: `open_image` refuses the others.
    """
    tags = getattr(image, "tag_v2", {})
    is_twelve_bits = tags.get(BITSPERSAMPLE) == (12,)  # Pillow leaves them as they are
    is_negative = tags.get(PHOTOMETRIC_INTERPRETATION) == 0  # which Pillow inverts where there are 8 bits
    image = ImageOps.exif_transpose(image)
    if image.mode == "I" or image.mode.startswith("I;16"):  # Pillow would clip every shade above 255
        values = np.asarray(image)
        shades = (values // (16 if is_twelve_bits else 257)).astype(np.uint8)
        shades[values == image.info.get(TRANSPARENCY, -1)] = 255  # of a PNG, which is no negative
        image = Image.fromarray(255 - shades if is_negative else shades)
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    if image.mode != "RGB":
        image = image.convert("RGB")
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(image)


def decode_all(decode: Callable[[int], np.ndarray], count: int, size: int) -> np.ndarray:
    """uint8[count, size, size, 3]: `decode(0)`, `decode(1)`, ..., by a pool of threads."""
    images = np.empty((count, size, size, 3), np.uint8)

    def fill(row: int) -> None:
        images[row] = decode(row)

    with ThreadPoolExecutor() as pool:
        for _ in pool.map(fill, range(count)):
            pass
    return images


def read_content(content: bytes | Path | None) -> bytes | None:
    """An image's encoded content, which may lie in a file of its own. Raises DataError where that cannot be read, or is
    a pipe or a device, which might never end."""
    if not isinstance(content, Path):
        return content
    try:
        if content.exists() and not content.is_file():
            raise DataError(f"{content} is no regular file; give image files, or folders of them")
        return content.read_bytes()
    except OSError as error:
        raise DataError(f"{content} cannot be read ({error.strerror}); repair or remove it") from error


def decode_square(encoded: bytes | None, size: int, name: str) -> np.ndarray:
    """uint8[size, size, 3] of an image file's content.

    Raises DataError, with `name`, where it is no image, or one of RANGELESS pixels, or of more than MAX_EXIF,
    MAX_SCANS, MAX_COMMENTS or MAX_TILES; ImageTooLargeError for one of more than MAX_PIXELS, or MAX_SIDE on a side.
    """
    with open_image(encoded, name) as image:
        return to_rgb_square(image, size)


def count_pixels(encoded: bytes | None, name: str) -> int:
    """The pixels of an image file's content, by its header alone; those of a tile where that is larger. Raises as
    `decode_square`."""
    with open_image(encoded, name) as image:
        return max(math.prod(full_size(image)), math.prod(decoded_size(image)))


def decoded_size(image: Image.Image) -> tuple[int, int]:
    """Width and height of what is in memory when an image from `open_image` is decoded: the image, or a tile of a TIFF
    that is larger, however little of it the image shows."""
    tags = getattr(image, "tag_v2", {})
    return max(image.size, (tags.get(TILEWIDTH, 0), tags.get(TILELENGTH, 0)), key=math.prod)


def full_size(image: Image.Image) -> tuple[int, int]:
    """Width and height in the file of an image from `open_image`, which a large JPEG loses."""
    size: tuple[int, int] = image.info.get(FULL_SIZE, image.size)
    return size


@contextmanager
def open_image(encoded: bytes | None, name: str) -> Iterator[Image.Image]:
    """An image file's content, opened. Raises as `decode_square`, whatever is done with the image in the block."""
    try:
        for kind, parts, count, most in _countable(encoded or b""):
            if count > most:
                raise DataError(
                    f"{name}: the {kind} has {count:,} {parts}; need {most:,} or fewer. Save it again in an image "
                    "editor, or remove it"
                )
        with Image.open(io.BytesIO(encoded or b""), formats=FORMATS) as image:
            _scale_transparency(image)
            _shrink(image)
            width, height = decoded_size(image)
            if width * height > MAX_PIXELS:
                what = "image" if image.size == (width, height) else "image's tile"
                raise ImageTooLargeError(
                    f"{name}: the {what} has {width} x {height} pixels, more than {MAX_PIXELS:,}; make it smaller or "
                    "remove it"
                )
            if max(image.size) > MAX_SIDE:
                raise ImageTooLargeError(
                    f"{name}: the image has {image.width} x {image.height} pixels; need {MAX_SIDE:,} or fewer on a "
                    "side. Make it smaller or remove it"
                )
            if image.mode in RANGELESS and (image.format, image.mode) != ("PPM", "I"):  # Pillow scales PGM to 16 bits
                raise DataError(
                    f"{name}: the image has {RANGELESS[image.mode]} as pixels, and does not say which are black and "
                    "white; save it with 8 or 16 bits per channel, or remove it"
                )
            yield image
    except DataError:
        raise
    except Image.DecompressionBombError as error:  # Pillow's own limit, where a header claims even more
        raise ImageTooLargeError(f"{name}: the image has too many pixels ({error}); make it smaller") from error
    except MemoryError as error:
        raise DataError(f"{name}: there is not enough memory to decode the image; make it smaller") from error
    except Exception as error:  # whatever a damaged file makes of Pillow's readers: struct.error of EXIF, and others
        reason: object = error
        if isinstance(error, UnidentifiedImageError):  # its own words name the buffer
            reason = f"it is none of {', '.join(FORMATS)}" if encoded else EMPTY
        raise undecodable(name, reason) from error


def undecodable(name: str, reason: object) -> DataError:
    """The error for an image that cannot be decoded."""
    return DataError(f"{name}: the image cannot be decoded ({reason}); repair or remove it")


def _countable(content: bytes) -> Iterator[tuple[str, str, int, int]]:
    """Parts of a file that cost time each: the format, what they are, how many there are, and how many are allowed."""
    if content.startswith(b"\xff\xd8"):
        yield "JPEG", "blocks of EXIF", content.count(EXIF), MAX_EXIF
        yield "JPEG", "scans", sum(1 for _ in SCAN.finditer(content)), MAX_SCANS
    elif content.startswith(PLAIN_PPM):
        yield "PPM of text", "comments", content.count(b"#"), MAX_COMMENTS
    elif content.startswith(tuple(PREFIXES)):
        yield "TIFF", "strips or tiles", _count_tiles(content), MAX_TILES


def _count_tiles(content: bytes) -> int:
    """The number of tiles of a TIFF, by its first directory; strips count as tiles.

    Raises ValueError for sizes of tiles that libtiff, which decodes them, may read otherwise than Pillow: those that
    are given twice, or as numbers of another type than the standard's, which Pillow skips.
    """
    order = "<" if content.startswith(b"II") else ">"
    pointer, head, entry = ("8xQ", "Q", "HHQ8x") if content[2] == 43 else ("4xI", "H", "HHI4x")  # BigTIFF, to Pillow
    (start,) = struct.unpack_from(order + pointer, content)
    (count,) = struct.unpack_from(order + head, content, start)
    start, size = start + struct.calcsize(order + head), struct.calcsize(order + entry)
    entries = struct.iter_unpack(order + entry, content[start : start + count * size])
    sizes, places = (TILEWIDTH, TILELENGTH), (STRIPOFFSETS, TILEOFFSETS)
    found = [each for each in entries if each[0] in (*sizes, *places)]  # a BigTIFF may have millions of others
    kinds = [kind for tag, kind, _ in found if tag in sizes]
    if len(kinds) > 2 or not {SHORT, LONG}.issuperset(kinds):
        raise ValueError("its tiles have no size of the standard")
    return max((number for tag, _, number in found if tag in places), default=0)


def _scale_transparency(image: ImageFile.ImageFile) -> None:
    """Let the transparent value of a PNG be one of its pixels, which have eight bits."""
    scale = SCALES.get(str(image.tile[0].args)) if image.format == "PNG" and image.tile else None
    if scale and TRANSPARENCY in image.info:
        value = image.info[TRANSPARENCY]
        image.info[TRANSPARENCY] = tuple(int(each * scale) for each in value) if image.mode == "RGB" else value * scale


def _shrink(image: Image.Image) -> None:
    """Let a JPEG of too many pixels be decoded at the largest size that is allowed."""
    (width, height), scale = image.size, 1
    while scale < 8 and (width // scale) * (height // scale) > MAX_PIXELS:
        scale *= 2
    if scale > 1 and image.draft(None, (width // scale, height // scale)):  # None but for a JPEG
        image.info[FULL_SIZE] = width, height
