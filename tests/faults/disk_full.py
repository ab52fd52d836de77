"""The disk of the storage is full at a checkpoint."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import Lab, SkippedError
from losses import Loss
from sweeps import require

SIZE = 128  # MiB; a plan that asks for more is refused


def full(lab: Lab) -> Loss:
    """Another file takes all the room of the disk in mid-sweep; it goes, and the same command goes on."""
    undisturbed = lab.undisturbed()
    with _small_disk(lab.root / "disk") as disk:
        with lab.sweep(storage=disk) as sweep:
            sweep.begin()
            sweep.until_epochs(sum(undisturbed.epochs.values()) // 2)
            other = disk / "other"
            sweep.strike(sweep.diary.in_progress())
            _fill(other)
            sweep.ended(1)
            lines = sweep.complained().strip().splitlines()
            named = len(lines) == 1 and str(disk) in lines[0] and "free some space" in lines[0]
            require(named, f"not one line that names the disk: {lines}")
            sweep.until_gone()
            other.unlink()
            sweep.begin()
            sweep.ended(0)
            sweep.until_gone()
        return Loss.of("disk full at a checkpoint", sweep, undisturbed)


@contextmanager
def _small_disk(place: Path) -> Iterator[Path]:
    """A file system of its own in memory, which takes the right to mount."""
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}m", "none", place], capture_output=True)
    if mounted.returncode:
        raise SkippedError(f"a small disk needs the right to mount: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def _fill(path: Path) -> None:
    """Write until there is no room left."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(2**16)):
                pass
        except OSError:
            return
