"""The outcome of a sweep as one table: the trials' rows, and the controls of each class split."""

from collections.abc import Sequence
from pathlib import Path

from pipelines.reports.sweep_table import SweepTable
from pipelines.workflow.training import TrainedSplit
from proser_core.baselines.tables import margins_of
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs.selection import Row
from proser_core.jobs.spec import CONTROL, LOGITS
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logits import load_logits


def tabulate(splits: Sequence[TrainedSplit], rows: list[Row], spaces: Sequence[str], trial_folders: Path) -> SweepTable:
    """Every trial, and the scores of the pretrained net and of the cross-entropy fine-tune of each split."""
    tasks = {split.index: OpenSetTask.load(split.task.path) for split in splits}
    return SweepTable(
        recipe=splits[0].recipe.name,
        spaces=tuple(spaces),
        splits={split_index: task.split for split_index, task in tasks.items()},
        rows=rows,
        controls=[control for split in splits for control in _controls(split, tasks[split.index], rows, trial_folders)],
        own=splits[0].recipe.finetune,
    )


def _controls(split: TrainedSplit, task: OpenSetTask, rows: list[Row], trial_folders: Path) -> list[Row]:
    nets = {"pretrained net": split.pretrained.path}
    for row in rows:
        if row["objective"] == "cross_entropy" and row["split_index"] == split.index and row["status"] == "finished":
            nets[CONTROL] = trial_folders / row["key"]
            break
    rate = split.recipe.calibration.target_rate
    controls = []
    for net, folder in nets.items():
        logits = load_logits(folder / LOGITS)
        for name, margin in margins_of(logits, task.train.targets).items():
            metrics = evaluate(logits, margin, task, rate).flat()
            controls.append({"split_index": split.index, "name": f"{net}, {name}", "metrics": metrics})
    return controls
