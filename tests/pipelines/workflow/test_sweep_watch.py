"""Watching trials while they run: whatever moment it looks at, no epoch is lost in tracking."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_runs import tiny_recipe
from rich.console import Console

from pipelines.cluster.cluster import Cluster
from pipelines.tracking.deferred import DeferredTracking
from pipelines.tracking.runs import ParentRun
from pipelines.workflow.session import TrainingSession
from pipelines.workflow.stages.finetune import SweepWatch
from pipelines.workflow.stages.trial_rows import TrialRows
from pipelines.workflow.training import TrainedSplit
from proser_core.jobs import spec
from proser_core.jobs.worker import run_job
from proser_core.store.store import Artefact, Store


class StoppedError(Exception):
    """Stands for a worker that is between two epochs."""


def stop(metrics: object) -> None:
    raise StoppedError


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingSession:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    recipe = tiny_recipe()
    store = Store(tmp_path / "storage")
    parent = ParentRun.open("watched", "key", {}, {})
    cluster = Cluster(recipe.cluster, store.root)
    return TrainingSession(store, cluster, DeferredTracking(print), Console(file=io.StringIO()), parent)


def test_a_trial_that_ends_while_it_is_looked_at_has_all_its_epochs_tracked(
    session: TrainingSession, task: Artefact, closed_set_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe()
    split = TrainedSplit(
        replace(recipe, finetune=replace(recipe.finetune, epochs=3)), task, Artefact(closed_set_weights.parent, "")
    )
    (trial,) = split.trials([split.recipe.finetune], session.store, bf16=False)
    job = trial.job(task, split.pretrained, bf16=False)
    with pytest.raises(StoppedError):
        run_job(job, stop)
    watch = SweepWatch(session, [trial], TrialRows({0: task}, {}, (), lambda: "silent"))
    read = spec.read_epochs

    def read_then_end(folder: Path) -> list[dict[str, float]]:
        rows = read(folder)
        run_job(job, lambda metrics: None)
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(spec, "read_epochs", read_then_end)
        watch.poll()
    watch.poll()
    (run,) = session.run.client.search_runs([session.run.experiment_id], "tags.`proser.trial_key` != ''")
    history = session.run.client.get_metric_history(run.info.run_id, "loss/closed_set")
    assert [metric.step for metric in history] == [0, 1, 2]
    assert run.info.status == "FINISHED"
