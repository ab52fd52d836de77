"""The outcome of a sweep as one table: the trials' rows, and the controls of each class split."""

from collections.abc import Sequence

from pipelines.reports.sweep_table import SweepTable
from pipelines.workflow.context import RunContext
from pipelines.workflow.stages.finetune import Base, Row, read_trials
from proser_core.baselines.tables import margins_of
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs.spec import CONTROL, LOGITS, TRIALS
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logits import load_logits
from proser_core.store.store import Artefact


def tabulate(bases: Sequence[Base], swept: Artefact, context: RunContext) -> SweepTable:
    """Every trial, and the scores of the pretrained net and of the cross-entropy fine-tune of each split."""
    rows = read_trials(swept)
    tasks = {base.recipe.data.split_index: OpenSetTask.load(base.task.path) for base in bases}
    return SweepTable(
        recipe=bases[0].recipe.name,
        spaces=tuple(context.spaces),
        splits={split_index: task.split for split_index, task in tasks.items()},
        rows=rows,
        controls=[control for base in bases for control in _controls(base, tasks, rows, context)],
        own=bases[0].recipe.finetune,
    )


def _controls(base: Base, tasks: dict[int, OpenSetTask], rows: list[Row], context: RunContext) -> list[Row]:
    split_index = base.recipe.data.split_index
    nets = {"pretrained net": base.pretrained.path}
    for row in rows:
        if row["objective"] == "cross_entropy" and row["split_index"] == split_index and row["status"] == "finished":
            nets[CONTROL] = context.store.root / TRIALS / row["key"]
            break
    task, rate = tasks[split_index], base.recipe.calibration.target_rate
    controls = []
    for net, folder in nets.items():
        logits = load_logits(folder / LOGITS)
        for name, margin in margins_of(logits, task.train.targets).items():
            metrics = evaluate(logits, margin, task, rate).flat()
            controls.append({"split_index": split_index, "name": f"{net}, {name}", "metrics": metrics})
    return controls
