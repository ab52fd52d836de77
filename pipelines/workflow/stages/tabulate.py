"""The outcome of a run or a sweep as one table: the rows of its trials, and the controls of each class split."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.reports.spaces import OWN_SPACE
from pipelines.reports.sweep_table import SweepTable
from pipelines.workflow.training import TrainedSplit
from proser_core.baselines.tables import controls
from proser_core.config import Recipe
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs.selection import Row
from proser_core.jobs.spec import LOGITS
from proser_core.recognition.logits import load_logits
from proser_core.titles import OWN_POINT, PROSER


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


def tabulate_run(recipe: Recipe, split: ClassSplit, rows: Sequence[Row], evaluation: dict[str, Any]) -> SweepTable:
    """The table of a run, a sweep over one space on one class split; its controls are those of its evaluation.

    Every point is in the space, the recipe's own too.
    """
    space, index = recipe.space or OWN_SPACE, recipe.data.split_index
    points = [{**row, "spaces": [space]} if row["objective"] == "proser" else row for row in rows]
    others = {name: each["flat"] for name, each in evaluation["methods"].items() if name not in (PROSER, OWN_POINT)}
    controls = [{"split_index": index, "name": name, "metrics": metrics} for name, metrics in others.items()]
    return SweepTable(recipe.name, (space,), {index: split}, points, controls, recipe.finetune)


def _controls(split: TrainedSplit, task: OpenSetTask, rows: list[Row], trial_folders: Path) -> list[Row]:
    trained = [row for row in rows if row["objective"] == "cross_entropy" and row["status"] == "finished"]
    keys = (row["key"] for row in trained if row["split_index"] == split.index)
    cross_entropy = next((load_logits(trial_folders / key / LOGITS) for key in keys), None)
    pretrained, rate = load_logits(split.pretrained.path / LOGITS), split.recipe.calibration.target_rate
    found = controls(pretrained, cross_entropy, task, rate)
    return [{"split_index": split.index, "name": name, "metrics": each.flat()} for name, each in found.items()]
