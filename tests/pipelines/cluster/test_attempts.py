"""Attempts at one training: what an earlier one finished is kept, and one without room is not begun."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from ray import tune
from training_jobs import ignore, lively_recipe, tiny_recipe, training_job

from pipelines.cluster.train_worker import check_disk_space, run_single_trial
from proser_core.errors import StorageError
from proser_core.jobs import spec
from proser_core.jobs.checkpoint_score import epochs_in_checkpoint
from proser_core.jobs.worker import run_job
from proser_core.store.lock import exclusive_training
from proser_core.store.store import MANIFEST, Artefact, load_if_complete


@pytest.fixture
def job(task: Artefact, closed_set_weights: Path, tmp_path: Path) -> spec.Job:
    return training_job(task, tmp_path / "trial", tiny_recipe(epochs=1), weights=closed_set_weights)


def test_what_an_earlier_attempt_has_finished_is_not_trained_again(job: spec.Job) -> None:
    run_job(job, lambda metrics: None)
    manifest = Path(job.folder) / MANIFEST
    finished = manifest.stat().st_mtime_ns
    run_single_trial({"job": job.to_json(), "storage": None})
    assert manifest.stat().st_mtime_ns == finished


def test_a_trial_that_another_process_holds_leaves_that_as_its_reason(
    job: spec.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(job.folder)
    monkeypatch.setattr("proser_core.store.lock.WAIT", 0.1)
    with exclusive_training(folder):
        run_single_trial({"job": job.to_json(), "storage": None})
    assert f"another process trains in {folder}: process {os.getpid()}" in (folder / spec.FAILURE).read_text()
    assert not (folder / spec.EPOCHS).exists()


def test_a_training_whose_checkpoints_have_no_room_is_not_begun(job: spec.Job, tmp_path: Path) -> None:
    Path(job.folder).mkdir()
    check_disk_space(job)
    huge = tmp_path / "huge"
    huge.touch()
    os.truncate(huge, 2**42)  # 4 TiB that take no room
    with pytest.raises(StorageError, match=r"two checkpoints need 16777216\.0 MiB; free some space"):
        check_disk_space(replace(job, weights=str(huge)))


@pytest.fixture(scope="module")
def paused(
    task: Artefact, closed_set_weights: Path, tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch
) -> dict[int, spec.Job]:
    """The same training, paused after the first epoch and after the second."""
    patch.setattr(tune, "report", ignore)
    folder = tmp_path_factory.mktemp("paused")
    job = training_job(task, folder / "1", lively_recipe(), weights=closed_set_weights)
    run_single_trial({"job": replace(job, pause=1).to_json(), "storage": None})
    shutil.copytree(folder / "1", folder / "2")
    further = replace(job, folder=str(folder / "2"))
    run_single_trial({"job": replace(further, pause=2).to_json(), "storage": None})
    return {1: job, 2: further}


@pytest.mark.parametrize(
    ("stopped_after", "lost"),
    [(1, (spec.STATE,)), (2, ()), (2, (spec.DEVELOPMENT_SCORES,)), (2, (spec.STATE, spec.DEVELOPMENT_SCORES))],
    ids=str,
)
def test_a_training_pauses_after_the_same_epoch_however_the_last_attempt_ended(
    paused: dict[int, spec.Job], tmp_path: Path, stopped_after: int, lost: tuple[str, ...]
) -> None:
    """EPOCHS is written before the checkpoint, which is written before the score; a changed checkpoint is deleted."""
    folder = shutil.copytree(paused[stopped_after].folder, tmp_path / "trial")
    for name in lost:
        (folder / name).unlink()
    run_single_trial({"job": replace(paused[stopped_after], folder=str(folder), pause=2).to_json(), "storage": None})
    assert (epochs_in_checkpoint(folder), spec.read_all_scores(folder)[-1]["epochs"]) == (2, 2)
    assert load_if_complete(folder) is None
