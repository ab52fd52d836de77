"""`OutlierSource`: where an outlier set is looked for, and `Place`: where it was found, before any image is decoded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proser_core.data.decoding import decode_all, read_content
from proser_core.data.readers.fingerprints import Fingerprints, files_fingerprint, fingerprints_of, status_of
from proser_core.data.readers.parquet import encoded_rows
from proser_core.data.readers.walking import image_paths
from proser_core.errors import DataError


@dataclass(frozen=True)
class Place:
    """Where a set of images was found.

    `read` gives uint8[n, size, size, 3] of rows int64[n] in 0..count-1, of a generated set (count None) of any rows.
    `note` is what a reader of results must know.
    """

    layout: str
    read: Callable[[np.ndarray, int], np.ndarray]
    fingerprints: Callable[[], Fingerprints]
    count: int | None = None
    note: str = ""


@dataclass(frozen=True)
class OutlierSource:
    """What a set is read from (`needs`, for people), what finds it in the data directory, and where to download it
    (`origin`, with size and licence). `classes_of` is the data set that shares its classes,
    `made_of` are the sets whose images it is made of.
    """

    name: str
    needs: str
    find: Callable[[Path | None], Place | None]
    origin: str = ""
    classes_of: str = ""
    made_of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Encoded:
    """The encoded image at a row of a set, and its name for errors."""

    row: int
    content: bytes | None
    name: str


def place_on_disk(
    layout: str,
    folder: Path,
    shards: Sequence[Path],
    count: int,
    decode: Callable[[Encoded, int], np.ndarray],
    note: str = "",
) -> Place:
    """A set of `count` images: the rows of Parquet files if there are `shards`, else all image files below a folder.

    `decode` makes uint8[size, size, 3] of an image and `size`. `read` raises DataError for another number of images,
    and for files that are damaged or cannot be read.
    """

    def read(rows: np.ndarray, size: int) -> np.ndarray:
        images = _in_rows(shards) if shards else [(path, Path(path)) for path in image_paths(folder)]
        if len(images) != count:
            raise DataError(f"{folder} holds {len(images)} images; need {count:,}. Unpack or export them again")

        def decode_row(position: int) -> np.ndarray:
            row = int(rows[position])
            name, content = images[row]
            return decode(Encoded(row, read_content(content), name), size)

        return decode_all(decode_row, len(rows), size)

    def fingerprints() -> Fingerprints:
        if shards:
            return fingerprints_of(shards)
        return [files_fingerprint(folder.name, map(status_of, image_paths(folder)), folder)]

    return Place(layout, read, fingerprints, count, note)


def _in_rows(shards: Sequence[Path]) -> Sequence[tuple[str, bytes | Path | None]]:
    """Name and content of each image, all held in memory, still encoded."""
    contents = [content for shard in shards for content in encoded_rows(shard)]
    return [(f"{shards[0].parent}, row {row}", content) for row, content in enumerate(contents)]
