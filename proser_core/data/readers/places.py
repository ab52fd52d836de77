"""`Place`: images that were found on disk, or are to be generated, before any is decoded."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proser_core.data.readers import parquet
from proser_core.data.readers.fingerprints import Fingerprints, files_fingerprint, status_of
from proser_core.data.readers.image_folders import ENDINGS, files_below
from proser_core.errors import DataError

Decode = Callable[[int], np.ndarray]


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


Find = Callable[[Path | None], Place | None]


def decoded(decode: Decode, count: int, size: int) -> np.ndarray:
    """uint8[count, size, size, 3]: `decode(0)`, `decode(1)`, ..., by as many threads as there are cores."""
    images = np.empty((count, size, size, 3), np.uint8)

    def fill(row: int) -> None:
        images[row] = decode(row)

    with ThreadPoolExecutor() as pool:
        for _ in pool.map(fill, range(count)):
            pass
    return images


@dataclass(frozen=True)
class Encoded:
    """Images that lie there as files or rows: how many, and of each its content, with its name for errors."""

    count: int
    content: Callable[[int], tuple[bytes | None, str]]


def in_files(folder: Path) -> Encoded:
    """All images below a folder, in the order of their paths. Raises DataError for a folder that cannot be read."""
    paths = image_paths(folder)
    return Encoded(len(paths), lambda row: (file_content(paths[row]), paths[row]))


def in_rows(shards: Sequence[Path]) -> Encoded:
    """The images of Parquet files, all held in memory, still encoded. Raises DataError for a damaged file."""
    encoded = [content for shard in shards for content in parquet.encoded_rows(shard)]
    return Encoded(len(encoded), lambda row: (encoded[row], f"{shards[0].parent}, row {row}"))


def file_content(path: str) -> bytes:
    """A file of a data set. Raises DataError where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); unpack the data set again") from error


def image_paths(folder: Path) -> list[str]:
    """All images below a folder, in the order of their paths. Raises DataError for a folder that cannot be read."""
    found = files_below(os.path.abspath(folder))
    return [entry.path for entry in found if entry.name.lower().endswith(ENDINGS)]


def fingerprints_below(folder: Path) -> Fingerprints:
    """One of all images below a folder."""
    return [files_fingerprint(folder.name, map(status_of, image_paths(folder)), folder)]
