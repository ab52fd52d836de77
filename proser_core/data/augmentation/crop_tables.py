"""Padded and mirrored images, of which random crops are windows, held once for all processes of a machine."""

import fcntl
import glob
import mmap
import os
from contextlib import suppress
from pathlib import Path
from tokenize import TokenError
from typing import TypeGuard

import numpy as np

from proser_core.store.files import atomic_path


def padded_versions(images: np.ndarray, padding: int, flip: bool) -> np.ndarray:
    """uint8[V, N, H + 2 * padding, W + 2 * padding, 3] of uint8[N, H, W, 3]: as they are, and mirrored where V is 2."""
    border = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    padded = np.pad(images, border)
    return np.stack([padded, padded[:, :, ::-1]]) if flip else padded[None]


def is_whole_file(images: np.ndarray) -> TypeGuard[np.memmap]:
    """Whether these are all images of a mapped .npy file. A part of one is a memmap with its name, too."""
    if not (isinstance(images, np.memmap) and isinstance(images.base, mmap.mmap)):
        return False
    return str(images.filename).endswith(".npy")


def shared_table(images: np.memmap, padding: int, flip: bool) -> np.ndarray:
    """`padded_versions` of a whole file, mapped from a hidden one in its folder; the first process writes that.

    Its name has inode, size and time of the file that it was made of; tables of a file that is no longer there are
    removed, and a damaged one is written again. Where it cannot be written, or the file system has no locks, this
    process holds a table of its own.
    """
    source = Path(str(images.filename))
    with suppress(OSError):
        state = source.stat()  # not the time alone: a file that is moved here may be older than the one before
        identity = f"{state.st_ino:x}-{state.st_size:x}-{state.st_mtime_ns:x}"
        path = source.with_name(f".{source.stem}.crops-{identity}-{padding}-{int(flip)}.npy")
        with source.with_name(f".{source.stem}.crops.lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a table that another process replaced would be held beside the new one
            with suppress(FileNotFoundError, ValueError, EOFError, TokenError):  # there is none, or a damaged one
                table = np.load(path, mmap_mode="c")  # pages are shared until one is written to, which nobody does
                one = padded_versions(images[:1], padding, flip)
                if (table.dtype, table.shape) == (one.dtype, (len(one), len(images), *one.shape[2:])):
                    return table
            for table in source.parent.glob(f".{glob.escape(source.stem)}.crops-*.npy"):
                if identity not in table.name:
                    table.unlink()
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.save(file, padded_versions(images, padding, flip))
                file.flush()
                os.fsync(file.fileno())  # a power cut could leave a file of the right size without its content
            return np.load(path, mmap_mode="c")
    return padded_versions(images, padding, flip)
