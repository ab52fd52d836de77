"""Atomic file writes, each beside its place and then moved into it; paths from the root, and the user's cache."""

import errno
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proser_core.errors import StorageError

LONGEST = 200
"""Bytes of a file's name to which a temporary one can add; file systems take 255."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
PARTIAL = re.compile(r"\..+\.\d+")  # a file that is being written: a dot, its name, the writer's thread


def temporary_path(path: Path) -> Path:
    """Where this thread writes a file before it takes its place: two threads may write one at a time."""
    name = os.fsencode(path.name)
    short = path.name if len(name) <= LONGEST else hashlib.sha256(name).hexdigest()
    return path.with_name(f".{short}.{threading.get_native_id()}")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path, whose file replaces `path` in one step at the end of the block; an error leaves neither."""
    temporary = temporary_path(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` in one step, durably: a reader or a crash never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def flush(path: Path) -> None:
    """Return once what was written into a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_partial_files(folder: Path) -> None:
    """Remove the files that a killed process was writing."""
    for path in folder.iterdir():
        if PARTIAL.fullmatch(path.name):
            path.unlink(missing_ok=True)


@contextmanager
def disk_full_errors(folder: Path) -> Iterator[None]:
    """Turn the system's error of a full disk into a StorageError that says where, and what to do."""
    try:
        yield
    except OSError as error:
        # numpy's own error of an array that did not fit has no number
        if error.errno not in DISK_FULL and (error.errno is not None or shutil.disk_usage(folder).free > 0):
            raise
        unnamed = folder if error.errno is None else f"{folder}, or of temporary files (TMPDIR, RAY_TMPDIR),"
        place = error.filename2 or error.filename or unnamed  # of a copy, the second is where it goes
        raise StorageError(
            f"the disk of {place} is full; free some space, and run the command again: nothing finished is lost"
        ) from error


def write_json(path: Path, value: Any) -> None:
    """Indented JSON, atomically."""
    write_atomically(path, json.dumps(value, indent=1).encode())


def read_json(path: Path) -> Any:
    """The value in a JSON file. Raises OSError, or ValueError for other content."""
    return parse_json(path.read_bytes())


def parse_json(content: bytes) -> Any:
    """The value in JSON. Raises ValueError for anything else, and for what is nested too deeply to be read."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def cache_folder() -> Path:
    """Where this user keeps what this project can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "proser"


def absolute(path: str | Path) -> str:
    """The path from the root. A `..` after a link goes where the system goes; os.path.abspath would drop both."""
    parts = Path(path).parts
    if os.pardir not in parts:
        return os.path.abspath(path)
    after = len(parts) - parts[::-1].index(os.pardir)
    return os.path.join(os.path.realpath(os.path.join(*parts[:after])), *parts[after:])
