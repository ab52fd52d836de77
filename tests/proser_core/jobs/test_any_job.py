"""Trainings of one process alone, one after the other."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from training_jobs import training_job

from proser_core.errors import StorageError, TrainingError
from proser_core.jobs import any_job
from proser_core.jobs.any_job import train_in_turn
from proser_core.jobs.spec import Job, read_failure, write_failure
from proser_core.store.store import Artefact


def test_one_that_fails_leaves_its_reason_and_the_others_go_on_until_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [training_job(Artefact(tmp_path / "task", ""), tmp_path / name) for name in "abcde"]
    ends = [None, TrainingError("diverged"), torch.OutOfMemoryError("no memory"), None, StorageError("full")]
    outcomes, threads = dict(zip([job.folder for job in jobs], ends, strict=True)), torch.get_num_threads()

    def run(job: Job, notify: Any) -> None:
        torch.set_num_threads(threads + 1)
        if error := outcomes[job.folder]:
            raise error

    monkeypatch.setattr(any_job, "run_any", run)
    trained = train_in_turn(jobs, 0.0)
    assert [next(trained).name, next(trained).name] == ["a", "d"]
    with pytest.raises(StorageError, match="full"):
        next(trained)
    assert torch.get_num_threads() == threads
    reasons = ["", "diverged", "no memory Use a smaller finetune.batch_size", "", ""]
    assert [read_failure(Path(job.folder)) for job in jobs] == reasons
    assert not list(train_in_turn(jobs, 1e-9)), "no time is left"


def test_a_reason_may_name_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    write_failure(tmp_path, f"no {os.fsdecode(bytes([0xFF]))}.png")
    assert read_failure(tmp_path) == r"no \udcff.png"
