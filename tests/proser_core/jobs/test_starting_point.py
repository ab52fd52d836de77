"""A disk that changes a bit: a checkpoint is not gone on from, and weights are not begun from."""

import errno
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from training_jobs import training_job

from proser_core.errors import CheckpointError
from proser_core.jobs.checkpoint_score import epochs_in_checkpoint
from proser_core.jobs.spec import EPOCHS, STATE, WEIGHTS, Job, read_epochs
from proser_core.jobs.starting_point import check_starting_point, delete_changed_checkpoint
from proser_core.store.store import Artefact, write_manifest

Corrupt = Callable[[bytearray, zipfile.ZipInfo], None]


def in_a_tensor(content: bytearray, tensor: zipfile.ZipInfo) -> None:
    content[tensor.header_offset + 200] ^= 1


def in_its_header(content: bytearray, tensor: zipfile.ZipInfo) -> None:
    content[tensor.header_offset] ^= 1


def at_the_end(content: bytearray, tensor: zipfile.ZipInfo) -> None:
    content[-20] ^= 1


def in_how_it_is_compressed(content: bytearray, tensor: zipfile.ZipInfo) -> None:
    content[content.rindex(tensor.filename.encode()) - 36] ^= zipfile.ZIP_DEFLATED


def in_where_the_directory_begins(content: bytearray, tensor: zipfile.ZipInfo) -> None:
    content[-50] ^= 1


def cut_off(content: bytearray, tensor: zipfile.ZipInfo) -> None:
    del content[len(content) // 2 :]


def checkpoint(folder: Path) -> zipfile.ZipInfo:
    """One with a tensor; where that stands in it."""
    torch.save({"net": {"weight": torch.ones(1000)}, "epoch": 1, "seconds": 1.5}, folder / STATE)
    with zipfile.ZipFile(folder / STATE) as file:
        return max(file.infolist(), key=lambda part: part.file_size)


@pytest.mark.parametrize(
    "corrupt", [in_a_tensor, in_its_header, at_the_end, in_how_it_is_compressed, in_where_the_directory_begins, cut_off]
)
def test_a_changed_checkpoint_is_deleted(corrupt: Corrupt, tmp_path: Path) -> None:
    tensor = checkpoint(tmp_path)
    assert not delete_changed_checkpoint(tmp_path), "as it was written"
    content = bytearray((tmp_path / STATE).read_bytes())
    corrupt(content, tensor)
    (tmp_path / STATE).write_bytes(content)
    assert delete_changed_checkpoint(tmp_path)
    assert not (tmp_path / STATE).exists()
    assert not delete_changed_checkpoint(tmp_path), "there is none"


def test_a_checkpoint_that_the_disk_does_not_give_now_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: zipfile.ZipFile) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    checkpoint(tmp_path)
    monkeypatch.setattr(zipfile.ZipFile, "testzip", fail)
    with pytest.raises(OSError, match="Input/output error"):
        delete_changed_checkpoint(tmp_path)
    assert (tmp_path / STATE).exists()


def test_the_folder_of_a_checkpoint_needs_no_name_in_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    checkpoint(folder)
    assert (delete_changed_checkpoint(folder), epochs_in_checkpoint(folder)) == (False, 2)


def test_a_checkpoint_whose_epochs_cannot_be_read_is_deleted(tmp_path: Path) -> None:
    """They would be missing from the curve."""
    checkpoint(tmp_path)
    epochs = b'{"epoch": 0, "loss": 1.5}\n{"epoch": 1, "loss": 1.25}\n'
    (tmp_path / EPOCHS).write_bytes(epochs)
    assert (len(read_epochs(tmp_path)), delete_changed_checkpoint(tmp_path)) == (2, False)
    (tmp_path / EPOCHS).write_bytes(bytes([epochs[0] ^ 128]) + epochs[1:])
    assert (read_epochs(tmp_path), delete_changed_checkpoint(tmp_path)) == ([], True)


def job(tmp_path: Path, kind: str) -> Job:
    weights = tmp_path / "pretrain" / WEIGHTS
    weights.parent.mkdir()
    weights.write_bytes(b"weights")
    if kind == "finetune":  # a user's own file has no manifest beside it
        write_manifest(weights.parent, {})
    return training_job(Artefact(tmp_path / "task", ""), tmp_path / "training", kind=kind, weights=weights)


def test_weights_that_changed_after_the_pretraining_are_refused_by_name(tmp_path: Path) -> None:
    fine = job(tmp_path, "finetune")
    check_starting_point(fine)
    Path(fine.weights).write_bytes(b"Weights")
    with pytest.raises(CheckpointError, match=f"{fine.weights} was changed after it was trained; run the same command"):
        check_starting_point(fine)


@pytest.mark.parametrize("manifest", [None, '{"name": "a web app"}'])
def test_a_users_own_weights_need_no_manifest(tmp_path: Path, manifest: str | None) -> None:
    own = job(tmp_path, "pretrain")
    if manifest:
        Path(own.weights).with_name("manifest.json").write_text(manifest)
    check_starting_point(own)
