"""The outcome of a sweep as one table: the trials' rows, and the controls of each class split."""

from collections.abc import Sequence
from pathlib import Path

from pipelines.reports.sweep_table import SweepTable
from pipelines.workflow.training import TrainedSplit
from proser_core.baselines.tables import controls
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs.selection import Row
from proser_core.jobs.spec import LOGITS
from proser_core.recognition.logits import load_logits


def tabulate(splits: Sequence[TrainedSplit], rows: list[Row], spaces: Sequence[str], trial_folders: Path) -> SweepTable:
    """The table of a sweep over `spaces`: the rows of its trials, and the controls of each class split."""
    first, tasks = splits[0].recipe, {split.index: OpenSetTask.load(split.task.path) for split in splits}
    return SweepTable(
        recipe=first.name,
        spaces=tuple(spaces),
        splits={split_index: task.split for split_index, task in tasks.items()},
        rows=rows,
        controls=[control for split in splits for control in _controls(split, tasks[split.index], rows, trial_folders)],
        own=splits[0].recipe.finetune,
    )


def _controls(split: TrainedSplit, task: OpenSetTask, rows: list[Row], trial_folders: Path) -> list[Row]:
    trained = [row for row in rows if row["objective"] == "cross_entropy" and row["status"] == "finished"]
    keys = (row["key"] for row in trained if row["split_index"] == split.index)
    cross_entropy = next((load_logits(trial_folders / key / LOGITS) for key in keys), None)
    pretrained, rate = load_logits(split.pretrained.path / LOGITS), split.recipe.calibration.target_rate
    found = controls(pretrained, cross_entropy, task, rate)
    return [{"split_index": split.index, "name": name, "metrics": each.flat()} for name, each in found.items()]
