"""Watching trials while they run: whatever moment it looks at, no epoch is lost in tracking, nor why a trial failed."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tracked_runs import following, reopened
from training_jobs import StoppedError, ignore, lively_recipe, stop_after
from waiting import until

from pipelines.cluster.cluster import Cluster
from pipelines.storage.storage import Storage
from pipelines.tracking.runs import ParentRun
from pipelines.tracking.server import NOTE
from pipelines.workflow.session import TimeUpError, TrainingSession, mark_run_failed
from pipelines.workflow.stages.sweep import SweepWatch, sweep
from pipelines.workflow.stages.trial_rows import TrialRows, read_rows
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.errors import TrainingError
from proser_core.jobs import spec
from proser_core.jobs.worker import run_job
from proser_core.store.store import Artefact

POINTS = (("beta", 1.0), ("beta", 2.0), ("beta", 3.0), ("gamma", 1e38))
"""The last one diverges, and of the others one trains its second epoch."""
BEFORE_IT = ["FAILED", "KILLED", "KILLED", "RUNNING"]


@pytest.fixture
def session(tmp_path: Path, parent: ParentRun) -> TrainingSession:
    return following(parent, Storage(tmp_path / "storage"))


def test_a_trial_that_ends_while_it_is_looked_at_has_all_its_epochs_tracked(
    session: TrainingSession, split: TrainedSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = replace(split, recipe=lively_recipe())
    (trial,) = split.trials([split.recipe.finetune], session.store)
    job = trial.job(split.task, split.pretrained)
    with pytest.raises(StoppedError):
        run_job(job, stop_after(1))
    watch = SweepWatch(session, [trial], TrialRows({0: split.task}, {}, (), lambda: "silent"))
    read = spec.read_epochs

    def read_then_end(folder: Path) -> list[dict[str, float]]:
        rows = read(folder)
        run_job(job, ignore)
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(spec, "read_epochs", read_then_end)
        watch.poll()
    watch.poll()
    (run,) = session.run.client.search_runs([session.run.experiment_id], "tags.`mlflow.proser.trial_key` != ''")
    history = session.run.client.get_metric_history(run.info.run_id, "loss/closed_set")
    assert [metric.step for metric in history] == [0, 1, 2]
    assert run.info.status == "FINISHED"


def test_the_bar_counts_no_more_for_the_longest_once_it_has_fallen_behind(
    session: TrainingSession, split: TrainedSplit
) -> None:
    points = [replace(split.recipe.finetune, epochs=epochs) for epochs in (5, 20)]
    trials = split.trials(points, session.store)
    watch = SweepWatch(session, trials, TrialRows({0: split.task}, {}, points, lambda: "silent"), points)
    assert watch._total == 1 + 20
    for trial, epochs, score in zip(trials, (1, 2), (0.9, 0.1), strict=True):
        trial.folder.mkdir(parents=True)
        (trial.folder / spec.EPOCHS).write_text("\n".join(json.dumps({"epoch": number}) for number in range(epochs)))
        scored_by = spec.score_key(trial.recipe.calibration)
        row = {"epochs": float(epochs), spec.SELECTION_METRIC: score, "scored_by": scored_by}
        (trial.folder / spec.DEVELOPMENT_SCORES).write_text(json.dumps(row))
    watch.expect({}, math.inf)
    assert watch._total == 5 + 2


def test_where_every_trial_failed_tracking_has_the_reason_of_each(
    session: TrainingSession, split: TrainedSplit, tmp_path: Path
) -> None:
    tuned = split.recipe.finetune
    (trial,) = split.trials([tuned], session.store)
    trial.folder.mkdir(parents=True)
    (trial.folder / spec.FAILURE).write_text("the loss is nan in epoch 1")
    with pytest.raises(TrainingError, match="the loss is nan"):
        sweep([split], [tuned], {}, [], 0.0, replace(session, trains=False), tmp_path)
    run = session.run.client.get_run(session.run.child_id(trial.key))
    assert (run.info.status, run.data.tags[NOTE]) == ("FAILED", "the loss is nan in epoch 1")


def test_a_budget_that_ends_before_any_point_has_finished_is_no_failure(
    session: TrainingSession, split: TrainedSplit, tmp_path: Path
) -> None:
    def shown() -> tuple[str, str]:
        run = session.run.client.get_run(session.run.run_id)
        return run.info.status, run.data.tags[NOTE]

    with pytest.raises(TimeUpError, match="no point had finished") as raised, mark_run_failed(session):
        sweep([split], [split.recipe.finetune], {}, [], 1e-9, session, tmp_path)
    assert shown() == ("KILLED", str(raised.value))
    reopened().start()
    assert shown() == ("RUNNING", "")


@pytest.mark.usefixtures("trains_here")
def test_a_sweep_whose_time_is_up_while_points_are_left_is_not_complete(
    session: TrainingSession, split: TrainedSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Cluster.run_jobs

    def train_the_first(cluster: Cluster, jobs: list[spec.Job], workers: int, name: str, **more: Any) -> None:
        train(cluster, jobs[:1], workers, name, **more)

    monkeypatch.setattr(Cluster, "run_jobs", train_the_first)
    points = [replace(split.recipe.finetune, beta=beta) for beta in (2.0, 3.0)]
    built = sweep([split], points, {}, [], 60.0, session, tmp_path)
    assert [row["status"] for row in read_rows(Artefact(tmp_path, ""))] == ["finished", "stopped"]
    assert not built.complete


@pytest.mark.usefixtures("trains_here")
def test_failed_and_stopped_trials_are_tracked_with_the_reason_while_others_train(
    session: TrainingSession, split: TrainedSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(split.recipe, finetune=replace(split.recipe.finetune, epochs=2))
    points = [replace(recipe.finetune, **{name: value}) for name, value in POINTS]
    shown, train = dict[str, str](), Cluster.run_jobs

    def look_before_the_last_epoch(
        cluster: Cluster, jobs: list[spec.Job], workers: int, name: str, **more: Any
    ) -> None:
        if name.endswith("-100"):
            until(lambda: sorted(status for status, _ in outcomes(session.run)) == BEFORE_IT)
            shown.update(outcomes(session.run))
        train(cluster, jobs, workers, name, **more)

    monkeypatch.setattr(Cluster, "run_jobs", look_before_the_last_epoch)
    sweep([replace(split, recipe=recipe)], points, {}, points, 0.0, session, tmp_path)
    assert shown["KILLED"] == "stopped after epoch 1 of 2"
    assert "must stay finite" in shown["FAILED"]


def outcomes(parent: ParentRun) -> list[tuple[str, str]]:
    """Status and description of each trial's run."""
    runs = parent.client.search_runs([parent.experiment_id], "tags.`mlflow.proser.trial_key` != ''")
    return [(run.info.status, run.data.tags.get(NOTE, "")) for run in runs]
