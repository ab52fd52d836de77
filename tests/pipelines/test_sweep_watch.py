"""Watching trials while they run: whatever moment it looks at, no epoch is lost in tracking."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_runs import tiny_recipe
from rich.console import Console

from pipelines.cluster.cluster import Cluster
from pipelines.tracking.runs import ParentRun
from pipelines.workflow.context import RunContext
from pipelines.workflow.stages.finetune import Base, SweepWatch
from proser_core.jobs import spec
from proser_core.jobs.worker import run_job
from proser_core.store.store import Artefact, Store


class StoppedError(Exception):
    """Stands for a worker that is between two epochs."""


def stop(metrics: object) -> None:
    raise StoppedError


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunContext:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    recipe = tiny_recipe()
    store = Store(tmp_path / "storage")
    parent = ParentRun.open("watched", "key", {}, {})
    cluster = Cluster(recipe.cluster, store.root)
    return RunContext(store, cluster, parent, Console(file=io.StringIO()), None, {}, None, False, [recipe.finetune])


def test_a_trial_that_ends_while_it_is_looked_at_has_all_its_epochs_tracked(
    context: RunContext, task: Artefact, closed_set_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe()
    base = Base(
        replace(recipe, finetune=replace(recipe.finetune, epochs=3)), task, Artefact(closed_set_weights.parent, "")
    )
    (trial,) = base.trials([base.recipe.finetune], context.store, bf16=False)
    job = trial.job(task, base.pretrained, bf16=False)
    with pytest.raises(StoppedError):
        run_job(job, stop)
    watch = SweepWatch(context, [trial], {0: task})
    read = spec.read_epochs

    def read_then_end(folder: Path) -> list[dict[str, float]]:
        rows = read(folder)
        run_job(job, lambda metrics: None)
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(spec, "read_epochs", read_then_end)
        watch.poll()
    watch.poll()
    (run,) = context.parent.client.search_runs([context.parent.experiment_id], "tags.`proser.trial_key` != ''")
    history = context.parent.client.get_metric_history(run.info.run_id, "loss/closed_set")
    assert [metric.step for metric in history] == [0, 1, 2]
    assert run.info.status == "FINISHED"
