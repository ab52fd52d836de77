"""Stage compare: the methods of the paper's tables on each class split, from the logits of what was trained."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.context import RunContext
from pipelines.stages.sweep import Base
from proser_core.baselines import METHODS, Method
from proser_core.baselines.tables import method_reports
from proser_core.config import FinetuneConfig
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs.files import read_json, write_json
from proser_core.jobs.spec import LOGITS
from proser_core.jobs.store import MANIFEST, Artefact, find
from proser_core.recognition.logits import LogitTable, load_logits

COMPARED = "compared.json"
Row = dict[str, Any]


def compare(bases: Sequence[Base], methods: Sequence[str], context: RunContext, folder: Path) -> None:
    """Write a row a method and class split: its metrics, and the seconds that its trainings took.

    A method whose fine-tune failed on a split has no row there.
    """
    write_json(folder / COMPARED, [row for base in bases for row in _rows(base, methods, context)])


def read_compared(compared: Artefact) -> list[Row]:
    """The rows that `compare` wrote: split_index, method, metrics, seconds."""
    return read_json(compared.path / COMPARED)


def _rows(base: Base, names: Sequence[str], context: RunContext) -> list[Row]:
    def folder_of(tuned: FinetuneConfig) -> Path:
        return base.trials([tuned], context.store, context.bf16)[0].folder

    def logits_of(tuned: FinetuneConfig) -> dict[str, LogitTable]:
        return load_logits(folder_of(tuned) / LOGITS)

    def seconds_of(method: Method) -> float:
        folders = [base.pretrained.path]
        if method.finetune is not None:
            folders.append(folder_of(method.finetune(base.recipe.finetune)))
        return sum(float(read_json(folder / MANIFEST)["seconds"]) for folder in folders)

    methods = [
        method
        for method in (METHODS[name] for name in names)
        if method.finetune is None or find(folder_of(method.finetune(base.recipe.finetune))) is not None
    ]
    task = OpenSetTask.load(base.task.path)
    reports = method_reports(methods, base.recipe, task, load_logits(base.pretrained.path / LOGITS), logits_of)
    return [
        {
            "split_index": base.recipe.data.split_index,
            "method": method.name,
            "metrics": reports[method.name].flat(),
            "seconds": seconds_of(method),
        }
        for method in methods
    ]
