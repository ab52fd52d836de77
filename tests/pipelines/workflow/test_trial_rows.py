"""Rows of trials, as a sweep tracks and reports them."""

from pathlib import Path

from tracked_runs import child
from training_jobs import tiny_recipe

from pipelines.storage.storage import Storage
from pipelines.tracking.runs import NOTE, ParentRun
from pipelines.workflow.stages.trial_rows import TrialRows
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.jobs import spec
from proser_core.store.store import Artefact


def test_the_reason_of_a_failed_trial_is_tracked_without_secrets(
    task: Artefact, parent: ParentRun, tmp_path: Path
) -> None:
    split = TrainedSplit(tiny_recipe(), task, Artefact(tmp_path, "weights"))
    (failed,) = split.trials([split.recipe.finetune], Storage(tmp_path / "storage"))
    failed.folder.mkdir(parents=True)
    (failed.folder / spec.FAILURE).write_text("cannot read s3://me:pass@host/b?secret_key=abc")
    row = TrialRows({split.index: split.task}, {}, (), lambda: "").row(failed)
    parent.track_trial(row, [])
    assert child(parent, failed.key).data.tags[NOTE] == "cannot read s3://host/b?secret_key=***"
