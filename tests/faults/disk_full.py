"""A disk is full at a checkpoint: that of the storage, or that of a worker alone."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import Lab, SkippedError
from losses import Loss
from ray_nodes import head_node
from sweeps import require

from pipelines.storage.mirror import MIRROR_VARIABLE

PROJECT = str(Path(__file__).parents[2])
SIZE = 128  # MiB; a plan that asks for more is refused


def full(lab: Lab) -> Loss:
    """Another file takes all the room of the disk in mid-sweep; it goes, and the same command continues."""
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


def of_a_worker(lab: Lab) -> Loss:
    """The disk of the machine that trains is full, and neither that of the storage nor that of the driver."""
    undisturbed = lab.undisturbed()
    storage = lab.root / "behind_a_uri"
    with _small_disk(lab.root / "small") as disk, head_node(PYTHONPATH=PROJECT, **{MIRROR_VARIABLE: str(disk)}) as head:
        options, more = ("--cluster.address", head.address), {"storage": storage, "uri": storage.as_uri()}
        mirror = {MIRROR_VARIABLE: str(lab.root / "mirror_of_the_driver")}
        with lab.sweep(options, environment={**head.environment, **mirror}, **more) as sweep:
            sweep.begin()
            sweep.until_epochs(sum(undisturbed.epochs.values()) // 2)
            other = disk / "other"
            sweep.strike(sweep.diary.unfinished())
            _fill(other)
            sweep.ended(1)
            lines = sweep.complained().strip().splitlines()
            require(len(lines) == 1 and str(disk) in lines[0], f"not one line that names the disk: {lines}")
            other.unlink()
            sweep.begin()
            sweep.ended(0)
        return Loss.of("disk of a worker full", sweep, undisturbed)


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
