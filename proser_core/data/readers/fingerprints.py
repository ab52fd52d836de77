"""Fingerprints of files: what tells a changed data set from an unchanged one without reading it."""

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from proser_core.errors import DataError
from proser_core.store.files import absolute

Fingerprints = list[tuple[str, int | str, int | str]]
"""Name, bytes and time of change; digests where these are of many files, or what is in a table decides."""
FileStatus = tuple[str, int, int]  # absolute path, bytes, time of change


def status_of(path: str | Path) -> FileStatus:
    """Path, bytes and time of change of a file. Raises DataError where there is none, or a pipe or device instead."""
    try:
        about = os.stat(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); repair or remove it") from error
    if not stat.S_ISREG(about.st_mode):
        raise DataError(f"{path} is no regular file; remove it")
    return str(path), about.st_size, about.st_mtime_ns


def fingerprints_of(files: Sequence[Path]) -> Fingerprints:
    """Name, bytes and time of change of each file."""
    return [(file.name, *status_of(file)[1:]) for file in files]


def files_fingerprint(name: str, files: Iterable[FileStatus], root: Path) -> tuple[str, str, str]:
    """`name`, a digest of all files' names below `root` and sizes, and one of their times of change."""
    sizes, times, top = hashlib.sha256(), hashlib.sha256(), absolute(root)
    for path, length, changed in files:
        sizes.update(f"{os.path.relpath(path, top)}\0{length}\0".encode(errors="surrogateescape"))
        times.update(f"{changed}\0".encode())
    return name, sizes.hexdigest(), times.hexdigest()


def folders_fingerprint(folder: Path) -> tuple[str, int, str]:
    """Name, number of files at any depth, and a digest of each folder below: its name, its number of files, and when
    one was last added or removed. A file that was changed in place is not noticed."""
    digest, total = hashlib.sha256(), 0
    for place, below, files in os.walk(folder):
        below.sort()
        total += len(files)
        text = f"{os.path.relpath(place, folder)}\0{len(files)}\0{os.stat(place).st_mtime_ns}\0"
        digest.update(text.encode(errors="surrogateescape"))
    return folder.name, total, digest.hexdigest()
