"""Stage compare: the methods of the paper's tables on each class split, from the logits of what was trained."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.context import RunContext
from pipelines.stages.sweep import Base
from proser_core.baselines import METHODS, Method
from proser_core.baselines.tables import method_reports
from proser_core.config import FinetuneConfig, decisive_fields
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs.code_version import code_version
from proser_core.jobs.files import read_json, write_json
from proser_core.jobs.spec import LOGITS
from proser_core.jobs.store import MANIFEST, Artefact, find
from proser_core.recognition.logits import load_logits

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
    task = OpenSetTask.load(base.task.path)

    def folder_of(method: Method) -> Path:
        if method.train is not None:
            return _trained(method, task, base, context)
        if method.finetune is None:
            return base.pretrained.path
        return _fine_tune(method.finetune(base.recipe.finetune), base, context)

    methods = {
        method: folder_of(method)
        for method in (METHODS[name] for name in names)
        if method.finetune is None or find(_fine_tune(method.finetune(base.recipe.finetune), base, context)) is not None
    }
    pretrained = load_logits(base.pretrained.path / LOGITS)
    reports = method_reports(
        methods,
        base.recipe,
        task,
        pretrained,
        finetuned=lambda tuned: load_logits(_fine_tune(tuned, base, context) / LOGITS),
        trained=lambda method: load_logits(methods[method] / LOGITS),
    )
    return [
        {
            "split_index": base.recipe.data.split_index,
            "method": method.name,
            "metrics": reports[method.name].flat(),
            "seconds": _seconds(folder) + (_seconds(base.pretrained.path) if method.finetune is not None else 0.0),
        }
        for method, folder in methods.items()
    ]


def _fine_tune(tuned: FinetuneConfig, base: Base, context: RunContext) -> Path:
    return base.trials([tuned], context.store, context.bf16)[0].folder


def _trained(method: Method, task: OpenSetTask, base: Base, context: RunContext) -> Path:
    """The folder of a method that trains a network of its own: found, or trained now, in this process."""
    train = method.train
    assert train is not None
    inputs = {
        "method": method.name,
        "task": base.task.digest,
        "recipe": decisive_fields(base.recipe),
        "code": code_version(train.__module__),
    }
    return context.store.run("methods", inputs, lambda folder: train(task, base.recipe, folder)).path


def _seconds(folder: Path) -> float:
    return float(read_json(folder / MANIFEST)["seconds"])
