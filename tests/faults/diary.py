"""A diary of a storage: every epoch that a training writes there, and every time that it is finished.

What is trained again overwrites what was there, so that only who looks all the time can count it.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from proser_core.jobs.spec import EPOCHS, PRETRAIN, TRIALS, read_epochs
from proser_core.store.lock import LOCK
from proser_core.store.store import MANIFEST

EVERY = 0.02  # seconds between looks; an epoch of these sweeps takes several times as long
Stamp = tuple[int, int]


@dataclass(frozen=True)
class Epoch:
    """One epoch of a training that was written, again or for the first time."""

    at: float
    training: str
    number: int


@dataclass(frozen=True)
class Strike:
    """A moment at which a fault struck, and the trainings that were in progress there and then."""

    at: float
    struck: frozenset[str]


@dataclass
class Diary:
    """What was seen in a storage; a training is called by its folder, such as trials/0123456789abcdef.

    Where finished folders are `uploaded`, equal rows that come twice in a row are not a second training.
    """

    storage: Path
    uploaded: bool = False
    epochs: list[Epoch] = field(default_factory=list)
    finished: Counter[str] = field(default_factory=Counter)
    _rows: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    _stamps: dict[Path, Stamp] = field(default_factory=dict)

    @contextmanager
    def kept(self) -> Iterator["Diary"]:
        """Keep the diary while the block runs."""
        stop = threading.Event()

        def keep() -> None:
            while not stop.wait(EVERY):
                self._look()

        thread = threading.Thread(target=keep, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()
            self._look()

    @property
    def different_epochs(self) -> int:
        """Epochs seen so far, each counted once."""
        return len({(epoch.training, epoch.number) for epoch in self.epochs})

    def numbers(self, training: str) -> list[int]:
        """The epochs of one training in the order in which they were written."""
        return [epoch.number for epoch in self.epochs if epoch.training == training]

    def in_progress(self, stage: str = "*") -> dict[str, int]:
        """Trainings in progress now, each with the process that writes."""
        found = {}
        for lock in self.storage.glob(f"{stage}/*/{LOCK}"):
            words = _read(lock).split()  # process PID on HOST, since ...
            if len(words) > 1 and psutil.pid_exists(int(words[1])) and not (lock.parent / MANIFEST).exists():
                found[lock.parent.relative_to(self.storage).as_posix()] = int(words[1])
        return found

    def unfinished(self) -> list[str]:
        """Trainings that have written an epoch and have not finished."""
        return [name for name in {epoch.training for epoch in self.epochs} if name not in self.finished]

    def _look(self) -> None:
        for stage in (PRETRAIN, TRIALS):
            for folder in self.storage.glob(f"{stage}/*"):
                training = f"{stage}/{folder.name}"
                if self._changed(folder / EPOCHS):
                    rows = []
                    with suppress(FileNotFoundError):
                        rows = read_epochs(folder)
                    now = time.monotonic()
                    self.epochs += [Epoch(now, training, int(row["epoch"])) for row in self._written(training, rows)]
                    self._rows[training] = rows
                if self._changed(folder / MANIFEST):
                    self.finished[training] += 1

    def _written(self, training: str, rows: list[dict[str, float]]) -> list[dict[str, float]]:
        """The rows since the last look: on a busy machine an epoch may come and another follow between two looks."""
        before = self._rows.get(training, [])
        if self.uploaded and rows == before:
            return []
        same = next((n for n, pair in enumerate(zip(rows, before, strict=False)) if pair[0] != pair[1]), len(before))
        return rows[max(0, min(same, len(rows) - 1)) :]

    def _changed(self, path: Path) -> bool:
        """Whether a file is there, and another one than at the last look."""
        try:
            stat = path.stat()
        except FileNotFoundError:
            return False
        stamp = (stat.st_ino, stat.st_mtime_ns)
        changed = self._stamps.get(path) != stamp
        self._stamps[path] = stamp
        return changed


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
