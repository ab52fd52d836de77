"""Files and images below a folder, at any depth, in the order of their names."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from proser_core.errors import DataError
from proser_core.store.files import absolute

ENDINGS = (".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Endings of the names of image files, in lower case."""
OTHER_ENDINGS = (".avif", ".cr2", ".dng", ".heic", ".heif", ".jp2", ".jxl", ".nef", ".svg")
"""Endings of images whose format is not read."""
Folders: TypeAlias = frozenset[tuple[int, int]]
"""Folders by device and inode."""


def image_paths(folder: Path) -> list[str]:
    """All images below a folder, in the order of their paths. Raises DataError for a folder that cannot be read."""
    return [entry.path for entry in files_below(absolute(folder)) if entry.name.lower().endswith(ENDINGS)]


def files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    """Files at any depth but hidden ones, sorted by name in each folder; a link back to a folder above
    one, or above `folder`, is not followed.

    Raises DataError for a folder that cannot be read.
    """
    waiting = _entries(folder)
    while waiting:  # no recursion: folders may be nested more deeply than calls
        entry, above = waiting.pop()
        if _is_folder(entry):
            waiting += _entries(entry.path, above)
        else:
            yield entry


def _entries(folder: str, above: Folders | None = None) -> list[tuple[os.DirEntry[str], Folders]]:
    """What is in a folder, the last by name first, each with the folders that it is in; nothing of one in `above`.
    Without it, the folders that `folder` is in, wherever a link to it lies."""
    try:
        here = _identity(folder)
        if above is None:
            above = frozenset(_identities(Path(os.path.realpath(folder)).parents))
        if here in above:
            return []
        with os.scandir(folder) as entries:
            shown = [each for each in entries if not each.name.startswith(".")]
    except OSError as error:
        raise DataError(f"{folder} cannot be read ({error.strerror}); give a folder that you may read") from error
    inside = above | {here}
    return [(each, inside) for each in sorted(shown, key=lambda each: each.name, reverse=True)]


def _identities(folders: Iterable[Path]) -> Iterator[tuple[int, int]]:
    for folder in folders:
        with suppress(PermissionError):  # a process may be in a folder that it could not enter
            yield _identity(folder)


def _identity(folder: str | Path) -> tuple[int, int]:
    about = os.stat(folder)
    return about.st_dev, about.st_ino


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a circle: a file that cannot be read, if its name is that of an image
        return False
