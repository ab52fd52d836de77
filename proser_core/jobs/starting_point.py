"""What a training goes on from is what was written: its own checkpoint, and the weights of the pretraining.

A disk may flip a bit without an error, and a training that goes on from a changed checkpoint has other results.
"""

import errno
import zipfile
from pathlib import Path

import torch

from proser_core.digests import sha256_of
from proser_core.errors import CheckpointError
from proser_core.jobs.own_networks.spec import weight_files
from proser_core.jobs.spec import EPOCHS, STATE, Job, read_epochs
from proser_core.store.store import MANIFEST, Manifest


def check_starting_point(job: Job) -> None:
    """Delete a changed checkpoint: the training then begins at its first epoch. Raises as `check_weights` does."""
    delete_changed_checkpoint(Path(job.folder))
    check_weights(job)


def check_weights(job: Job) -> None:
    """Raises CheckpointError for weights to begin from that are not those that a manifest beside them lists; the next
    run makes them again."""
    if job.kind == "pretrain":  # a user's own file: the key has its SHA-256, and a manifest next to it is not ours
        return
    for path in map(Path, weight_files(job)):
        if not (path.parent / MANIFEST).is_file():
            continue
        digest = sha256_of(path)
        if Manifest.read(path.parent).files.get(path.name, digest) != digest:
            raise CheckpointError(
                f"{path} was changed after it was trained; run the same command again, which trains it again"
            )


def delete_changed_checkpoint(folder: Path) -> bool:
    """Whether there was one, or one whose epochs cannot be read. PyTorch writes a ZIP file with a CRC-32 of each
    tensor, and does not compare it."""
    path = folder / STATE
    if not path.is_file():
        return False
    has_epochs = read_epochs(folder) or not (folder / EPOCHS).exists()
    if has_epochs and _is_as_written(path):
        return False
    path.unlink(missing_ok=True)
    return True


def _is_as_written(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as file:
            if file.testzip() is not None:
                return False
        # what stands between the tensors; these are dropped, and not mapped, which takes no path but UTF-8
        torch.load(path, map_location="meta", weights_only=True)
        return True
    except Exception as error:  # zipfile and torch answer changed bits with a dozen kinds
        # a changed place may lie before the file (EINVAL); other errors of the disk do not say what was written
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        return False
