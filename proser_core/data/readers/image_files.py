"""Images to be classified: files, folders, patterns such as 'photos/*.jpg', and Parquet files.

They are read in pieces, so that memory does not grow with their number. An image that cannot be decoded, or is of a
format that is not read, is skipped and reported by name.
"""

import glob
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from proser_core.data.decoding import Failure, decode_square, read_content
from proser_core.data.readers.parquet import count_rows, encoded_rows, has_images
from proser_core.data.readers.walking import ENDINGS, OTHER_ENDINGS, files_below
from proser_core.errors import DamagedFileError, DataError

PIECE = 256  # images that are read and classified at a time
PATTERN = "*?["
NAMED = (*ENDINGS, *OTHER_ENDINGS)  # how an image is named, whether its format is read or not


@dataclass(frozen=True)
class Piece:
    """Image files, or one Parquet file: what one process reads at a time."""

    files: tuple[str, ...]
    is_parquet: bool = False


@dataclass(frozen=True)
class Decoded:
    """Images uint8[n, size, size, 3] with their names, a path or PATH, row R; and those that were skipped."""

    names: list[str]
    images: np.ndarray
    failures: list[Failure] = field(default_factory=list)


Content = bytes | Path | Failure | None  # of an image: encoded, in a file of its own, skipped already, or missing
Identity = tuple[int, int]  # device and inode of a file
Outputs = frozenset[Identity]
"""Files that are about to be replaced, perhaps below the very folder that is read: they are left out."""
NO_OUTPUTS: Outputs = frozenset()


@dataclass(frozen=True)
class Found:
    """How many images are below some paths, with those that cannot be decoded, whether any are in Parquet files, and
    how many files are no images, by their ending or their columns."""

    count: int
    has_parquet: bool
    others: int
    first_other: str


def written_to(*paths: Path | None) -> Outputs:
    """Those of the paths that were given and exist. What replaces a link leaves the file behind it as it is."""
    found = (_identity(path, os.lstat) for path in paths if path is not None)
    return frozenset(each for each in found if each is not None)


def _is_written(path: str, outputs: Outputs) -> bool:
    """Whether the file, or a link to it, is about to be replaced, whatever path leads to it."""
    return bool(outputs) and any(_identity(path, status) in outputs for status in (os.lstat, os.stat))


def _identity(path: str | Path, status: Callable[[str | Path], os.stat_result]) -> Identity | None:
    try:
        about = status(path)
    except OSError:
        return None
    return about.st_dev, about.st_ino


def check_paths(paths: Sequence[str], outputs: Outputs = NO_OUTPUTS) -> None:
    """Raises DataError for a path that does not exist or is to be written, a folder or a pattern without an image."""
    if not paths:
        raise DataError("no image was given; name files, folders, patterns such as 'photos/*.jpg', or Parquet files")
    for path in paths:
        if not path or (not Path(path).exists() and not any(sign in path for sign in PATTERN)):
            raise DataError(
                f"{path or repr(path)} does not exist; need a file, a folder, a pattern, or a Parquet file of images"
            )
        if _is_written(path, outputs):
            raise DataError(
                f"{path} is to be read, and to be written; give another output, or do not name it as an image"
            )
        if next(pieces([path], outputs), None) is None:
            kind = "holds" if Path(path).is_dir() else "matches"
            raise DataError(f"{path} {kind} no image ({', '.join(ENDINGS)}) and no Parquet file; give another path")


def pieces(paths: Iterable[str], outputs: Outputs = NO_OUTPUTS) -> Iterator[Piece]:
    """All images below the paths, in the order of the paths and then of their names.

    A file that is named itself is taken whatever its ending. Raises DataError for a folder that cannot be read.
    """
    images = (path for path, is_image in _files_below(paths, outputs) if is_image)
    for is_parquet, group in itertools.groupby(images, _is_parquet):
        while files := tuple(itertools.islice(group, 1 if is_parquet else PIECE)):
            yield Piece(files, is_parquet)


def decoded(piece: Piece, size: int, pool: ThreadPoolExecutor) -> Iterator[Decoded]:
    """The images of a piece, up to PIECE at a time, decoded by the pool's threads.

    Raises DataError for a Parquet file without a column of images; what is damaged is a Failure.
    """
    encoded: Iterator[tuple[str, Content]] = (
        _rows(piece) if piece.is_parquet else ((path, Path(path)) for path in piece.files)
    )
    while chunk := list(itertools.islice(encoded, PIECE)):
        names, images, failures = [], [], []
        for (name, _), image in zip(chunk, pool.map(lambda each: _decode(each[0], each[1], size), chunk), strict=True):
            if isinstance(image, Failure):
                failures.append(image)
            else:
                names.append(name)
                images.append(image)
        yield Decoded(names, np.stack(images) if images else np.zeros((0, size, size, 3), np.uint8), failures)


def count_images(paths: Iterable[str], outputs: Outputs = NO_OUTPUTS) -> Found:
    """What is below the paths. Raises DataError where there is no image, and for a folder that cannot be read."""
    paths, count, has_parquet, others, first_other = list(paths), 0, False, 0, ""
    for path, is_image in _files_below(paths, outputs):
        if is_image:
            count += _count_rows(path) if _is_parquet(path) else 1
            has_parquet = has_parquet or _is_parquet(path)
        else:
            others += 1
            first_other = first_other or path
    if not count:
        raise DataError(f"the Parquet files of {' '.join(paths)} have no row; give files with images")
    return Found(count, has_parquet, others, first_other)


def _files_below(paths: Iterable[str], outputs: Outputs) -> Iterator[tuple[str, bool]]:
    """Files below the paths, and whether each is an image or has images."""
    for path, named in itertools.chain.from_iterable(map(_files, paths)):
        if not _is_written(path, outputs):
            yield path, named or (has_images(Path(path)) if _is_parquet(path) else path.lower().endswith(NAMED))


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


def _files(path: str) -> Iterator[tuple[str, bool]]:
    """Files below a path, and whether it is the path itself."""
    if Path(path).is_dir():
        for entry in files_below(path):
            yield entry.path, False
    elif Path(path).exists():
        yield path, True
    else:
        walked: set[Path] = set()
        for match in _matches(path):
            if walked and not walked.isdisjoint(Path(match).parents):
                continue  # ** matches a folder, and then all that is in it
            if Path(match).is_dir():
                walked.add(Path(match))
                yield from ((entry.path, False) for entry in files_below(match))
            else:
                yield match, False


def _matches(pattern: str) -> list[str]:
    """What a pattern matches in the order of the names, each once, by its shortest path: a link to a folder above makes
    `**` match all 41 times."""
    real, found = cache(os.path.realpath), dict[tuple[str, str], str]()
    for match in sorted(glob.iglob(pattern, recursive=True), key=len):
        found.setdefault((real(os.path.dirname(match)), os.path.basename(match)), match)
    return sorted(found.values())


def _count_rows(path: str) -> int:
    try:
        return count_rows(Path(path))
    except DamagedFileError:
        return 1  # it is reported as one failure


def _rows(piece: Piece) -> Iterator[tuple[str, bytes | Failure | None]]:
    (path,) = piece.files
    row = -1
    try:
        for row, content in enumerate(encoded_rows(Path(path))):
            yield f"{path}, row {row}", content
    except DamagedFileError as error:
        reason = str(error) if row < 0 else f"{error}; its rows from {row + 1} on are skipped"
        yield path, Failure(path, reason)


def _decode(name: str, content: Content, size: int) -> np.ndarray | Failure:
    """A file is read here, by a thread of the pool: files that wait are not in memory."""
    if isinstance(content, Failure):
        return content
    if isinstance(content, Path) and name.lower().endswith(OTHER_ENDINGS):  # a raw one might give its small preview
        return Failure(name, f"{name} is of a format that is not read; convert it to JPEG or PNG")
    try:
        return decode_square(read_content(content), size, name)
    except DataError as error:
        return Failure(name, str(error))
