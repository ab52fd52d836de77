"""Output files for people: names of a report's files, and files that an option names, which are checked before any work
and written atomically."""

import io
import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from proser_core.errors import ConfigError
from proser_core.store.files import atomic_path, disk_full_errors, flush, temporary_path, write_atomically
from proser_core.store.lock import absent_folders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_ENDINGS = (".png", ".pdf", ".svg", ".jpg")
"""Endings of the pictures that `write_picture` writes."""
RESULTS, FIGURES, TABLES = "results.md", "figures", "tables"  # of a report: for people, and its folders
RECIPE = f"{TABLES}/recipe.json"


def check_output(path: Path | None, option: str, endings: Iterable[str] = ()) -> None:
    """Raises ConfigError for a path with another ending, where there are `endings`, or one that cannot be written."""
    if path is None:
        return
    try:
        if (endings and path.suffix not in endings) or (path.exists() and not path.is_file()):
            ending = f" that ends in {', '.join(endings)}" if endings else ""
            raise ConfigError(f"{option} got {path}; need a file{ending}, and no folder, pipe or device")
        if not path.parent.is_dir():
            raise ConfigError(f"{option} got {path}, and there is no folder {path.parent}; make it, or give another")
        if _is_mounted(path):
            raise ConfigError(f"{option} got {path}, a mount, which no file can replace; mount its folder instead")
        if path.exists() and _belongs_to_others(path):
            raise ConfigError(f"{option} got {path}, another user's file, which only they may replace; give another")
        beside = temporary_path(path)  # where the file is written before it is renamed
        beside.touch()
        beside.unlink()
    except OSError as error:
        raise ConfigError(f"{option} got {path}, which cannot be written ({error.strerror}); give another") from error


def _is_mounted(path: Path) -> bool:
    """Whether it is mounted by itself, as a file of a container may be. `os.path.ismount` compares devices: a file may
    have another one than its folder in an overlay, and has the same where it is mounted from the same disk."""
    place = os.fsencode(os.path.join(os.path.realpath(path.parent), path.name))
    named = re.sub(rb"[ \t\n\\]", lambda found: b"\\%03o" % found[0][0], place)  # as the kernel writes names
    return any(line.split(b" ")[4] == named for line in Path("/proc/self/mountinfo").read_bytes().splitlines())


def _belongs_to_others(path: Path) -> bool:
    """Whether a file in a sticky folder, such as /tmp, is not this user's to replace."""
    folder = path.parent.stat()
    return bool(folder.st_mode & stat.S_ISVTX) and os.geteuid() not in (0, folder.st_uid, path.lstat().st_uid)


def write_output(path: Path, content: bytes) -> None:
    """Write the file atomically. Raises StorageError where its disk is full."""
    with disk_full_errors(path.parent):
        write_atomically(path, content)


def write_together(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files by name into a folder, which is made: none takes its place before all are written, and an error
    before that leaves everything as it was. Raises StorageError where the disk is full."""
    made = absent_folders(folder)
    try:
        with disk_full_errors(folder), ExitStack() as places:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in contents.items():
                temporary = places.enter_context(atomic_path(folder / name))
                temporary.write_bytes(content)
                flush(temporary)
    except BaseException:
        with suppress(OSError):  # something else is there by now
            for each in filter(Path.exists, made):
                each.rmdir()
        raise


def write_picture(figure: "Figure", path: Path) -> None:
    """Write a figure atomically, in the format of the path's ending."""
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.removeprefix("."), dpi=150)
    write_output(path, content.getvalue())
