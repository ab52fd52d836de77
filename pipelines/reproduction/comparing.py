"""Stage compare: the methods of the paper's tables on each class split, from the logits of what was trained."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pipelines.workflow.context import RunContext
from pipelines.workflow.stages.finetune import Base
from proser_core.baselines import METHODS, Method
from proser_core.baselines.tables import Tables, method_report
from proser_core.config import decisive_fields
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ProserError
from proser_core.jobs.spec import LOGITS
from proser_core.processor import hardware
from proser_core.recognition.logits import load_logits
from proser_core.store.code_version import code_version
from proser_core.store.files import read_json, write_json
from proser_core.store.store import MANIFEST, Artefact, Built, find

COMPARED = "compared.json"
Row = dict[str, Any]


def compare(bases: Sequence[Base], methods: Sequence[str], context: RunContext, folder: Path) -> Built:
    """Write a row a method and class split: its metrics, and how long and on what its trainings ran.

    A method whose fine-tune failed on a split has no row there, nor one whose own network cannot be trained or whose
    logits cannot be calibrated, which leaves the comparison incomplete: it is tried and told again by the next run.
    """
    failures: list[str] = []
    write_json(folder / COMPARED, [row for base in bases for row in _rows(base, methods, context, failures)])
    context.failures += failures
    return Built(complete=not failures)


def read_compared(compared: Artefact) -> list[Row]:
    """The rows that `compare` wrote: split_index, method, metrics, seconds, trained_on."""
    return read_json(compared.path / COMPARED)


def _rows(base: Base, names: Sequence[str], context: RunContext, failures: list[str]) -> list[Row]:
    task, rows = OpenSetTask.load(base.task.path), []
    logits_in = functools.cache(load_logits)  # several methods score one network
    for method in (METHODS[name] for name in names):
        try:
            folder = _folder_of(method, task, base, context)
            if folder is not None:
                rows.append(_row(method, folder, logits_in(folder / LOGITS), task, base))
        except ProserError as error:  # a network that has diverged
            failures.append(f"{method.name}, class split {base.recipe.data.split_index}: {error}")
    return rows


def _folder_of(method: Method, task: OpenSetTask, base: Base, context: RunContext) -> Path | None:
    """Of the network that the method scores; one of its own is trained now where it is not found. None where its
    fine-tune failed, which the sweep has told."""
    if method.train is not None:
        return _trained(method, task, base, context)
    if method.finetune is None:
        return base.pretrained.path
    folder = base.trials([method.finetune(base.recipe.finetune)], context.store, context.bf16)[0].folder
    return folder if find(folder) is not None else None


def _row(method: Method, folder: Path, logits: Tables, task: OpenSetTask, base: Base) -> Row:
    report = method_report(method, logits, task, base.recipe.calibration.target_rate)
    folders = [folder] if method.train is not None else list(dict.fromkeys([base.pretrained.path, folder]))
    manifests = [read_json(each / MANIFEST) for each in folders]
    return {
        "split_index": base.recipe.data.split_index,
        "method": method.name,
        "metrics": report.flat(),
        "seconds": sum(float(manifest["seconds"]) for manifest in manifests),
        "trained_on": sorted({manifest["made_on"] for manifest in manifests}),
    }


def _trained(method: Method, task: OpenSetTask, base: Base, context: RunContext) -> Path:
    """The folder of a method that trains a network of its own: found, or trained now, in this process."""
    train = method.train
    assert train is not None
    inputs = {
        "method": method.name,
        "task": base.task.digest,
        "recipe": decisive_fields(base.recipe),
        "bf16": context.bf16,
        "code": code_version(train.__module__),
    }

    def build(folder: Path) -> None:
        train(task, base.recipe, folder)

    made_on = hardware(uses_gpu=torch.cuda.is_available())  # it trains in this process, not in Ray's workers
    return context.store.run("methods", inputs, build, made_on=made_on).path
