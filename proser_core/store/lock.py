"""Locks that the system gives back however their holder ends: one run in a storage, one process at a training."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from proser_core.errors import ConfigError, InUseError, TrainingError
from proser_core.store.files import disk_full_errors

LOCK = ".lock"
IDENTITY = ".identity"
"""File of a storage with a random name, which moves with it."""
WAIT = 120.0
"""Seconds that a training waits for a process of an earlier attempt; one whose machine left its cluster ends in 60."""


def absent_folders(folder: Path) -> list[Path]:
    """The folders that do not exist among this one and those above it, itself first: what making it will make."""
    try:
        root = folder.expanduser().absolute()
        return [each for each in (root, *root.parents) if not each.exists()]
    except (OSError, RuntimeError):  # of a path that cannot be made
        return []


@contextmanager
def exclusive_storage(storage: Path, work: str, made: Sequence[Path] = (), uri: str = "") -> Iterator[None]:
    """Hold the storage's lock: two runs would write over each other's checkpoints.

    `work` names the holder in the error of a second run, and `uri` the storage where this folder is its mirror. The
    folders `made` for this work, the storage first, are deleted where it leaves nothing in them, as a refused command
    does. Raises InUseError where another run works there; ConfigError where the file system has no locks over all
    machines that start runs, as NFS 4, EFS and Lustre have; StorageError where the work fills the disk.
    """
    with disk_full_errors(storage), (storage / LOCK).open("a+", encoding="utf-8") as lock:
        try:
            taken = _take(lock)
        except OSError as error:
            raise ConfigError(
                f"the file system of {storage} cannot lock files ({error.strerror}), and two runs there would harm "
                "each other; give a folder on one that can, such as a local disk or NFS 4"
            ) from error
        if not (taken and os.fstat(lock.fileno()).st_nlink):  # without a link, the run before deleted it just now
            place, another = (uri, "--storage") if uri else (storage, "folder")
            raise InUseError(f"another run works in {place}: {_holder(lock)}; wait for it, or give another {another}")
        with suppress(OSError):  # a full disk is for the work to find, and `clean` frees it
            _sign(lock, f"{work}, ")
        try:
            yield
        finally:
            with suppress(OSError):  # another command works there by now
                _delete_unused(made)
        lock.truncate(0)


@contextmanager
def exclusive_training(folder: Path) -> Iterator[None]:
    """Hold a training's folder, as soon as a process of an earlier attempt that may still write there has ended.

    Such a process has lost its driver or its cluster and does not know it yet. Raises TrainingError where it
    does not end in WAIT seconds. A file system without locks is trusted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + WAIT
    with (folder / LOCK).open("a+", encoding="utf-8") as lock:
        while not _take_if_possible(lock):
            if time.monotonic() > end:
                raise TrainingError(
                    f"another process trains in {folder}: {_holder(lock)}; end it, then give the same command again"
                )
            time.sleep(0.1)
        with suppress(OSError):  # a full disk is for the training to find
            _sign(lock)
        yield
        lock.truncate(0)


def _delete_unused(made: Sequence[Path]) -> None:
    """Delete folders that hold nothing but the lock, while it is held, and perhaps the storage's name."""
    files = list(made[0].iterdir()) if made else []
    if files and {path.name for path in files} <= {LOCK, IDENTITY}:
        for path in files:
            path.unlink()
        for folder in made:
            folder.rmdir()


def _take(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take_if_possible(lock: TextIO) -> bool:
    try:
        return _take(lock)
    except OSError:
        return True


def _holder(lock: TextIO) -> str:
    lock.seek(0)
    return lock.read().strip() or "one that does not name itself"


def _sign(lock: TextIO, work: str = "") -> None:
    text = f"{work}process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%F %T')}\n"
    lock.truncate(0)
    os.write(lock.fileno(), text.encode())  # unbuffered: a full disk must not fail when the file is closed
