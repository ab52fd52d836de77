"""The file of a trial's development scores: which rows it keeps, and which of them are read."""

import json
from pathlib import Path

import pytest
from training_jobs import StoppedError, stop_after, tiny_recipe, training_job

from proser_core.config import CalibrationConfig
from proser_core.jobs.checkpoint_score import score_checkpoint
from proser_core.jobs.spec import (
    CHECKPOINT_SCORE,
    DEVELOPMENT_SCORES,
    SELECTION_METRIC,
    read_all_scores,
    read_scores,
    score_key,
)
from proser_core.jobs.worker import run_job
from proser_core.store import code_version
from proser_core.store.store import Artefact


def write_scores(folder: Path, *epochs: int) -> None:
    """Of the default calibration."""
    about = {SELECTION_METRIC: 0.5, "scored_by": score_key(CalibrationConfig())}
    (folder / DEVELOPMENT_SCORES).write_text("\n".join(json.dumps({"epochs": each, **about}) for each in epochs))


def test_scores_of_epochs_that_are_to_be_trained_again_go(
    task: Artefact, closed_set_weights: Path, tmp_path: Path
) -> None:
    recipe = tiny_recipe(epochs=3)
    job = training_job(task, tmp_path, recipe, weights=closed_set_weights)
    with pytest.raises(StoppedError):
        run_job(job, stop_after(2))
    write_scores(tmp_path, 1, 2, 3)
    score_checkpoint(job)
    rows = read_scores(tmp_path, recipe.calibration)
    assert [row["epochs"] for row in rows] == [1, 2]
    assert rows[-1][SELECTION_METRIC] != 0.5


def test_a_score_by_other_code_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_scores(tmp_path, 1)
    assert read_scores(tmp_path, CalibrationConfig()) == read_all_scores(tmp_path) != []
    monkeypatch.setitem(code_version._versions, CHECKPOINT_SCORE, "edited")
    assert read_scores(tmp_path, CalibrationConfig()) == []
