"""Stage compare: the methods of the paper's tables on each class split, from the logits of what was trained."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pipelines.workflow.stage import METHODS_STAGE
from pipelines.workflow.training import TrainedSplit
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
from proser_core.store.store import MANIFEST, Artefact, BuildResult, Store, load_if_complete

COMPARED = "compared.json"
Row = dict[str, Any]


def compare(
    splits: Sequence[TrainedSplit], methods: Sequence[str], bf16: bool, store: Store, folder: Path
) -> BuildResult:
    """Write a row per method and class split: its metrics, and how long and on what its trainings ran. There is none
    where its fine-tune failed. Where its own network cannot be trained or its logits cannot be calibrated, the
    comparison is incomplete as well: the next run tries again."""
    rows, failures = list[Row](), list[str]()
    for split in splits:
        task = OpenSetTask.load(split.task.path)
        logits_in = functools.cache(load_logits)  # several methods score one network
        for method in (METHODS[name] for name in methods):
            try:
                network = _network_of(method, task, split, bf16, store)
                if network is not None:
                    rows.append(_row(method, network, logits_in(network / LOGITS), task, split))
            except ProserError as error:  # a network that has diverged
                failures.append(f"{method.name}, class split {split.index}: {error}")
    write_json(folder / COMPARED, {"rows": rows, "failures": failures})
    return BuildResult(complete=not failures)


def read_compared(compared: Artefact) -> tuple[list[Row], list[str]]:
    """What `compare` wrote: rows of split_index, method, metrics, seconds, trained_on, and why others are missing."""
    found = read_json(compared.path / COMPARED)
    return found["rows"], found["failures"]


def _network_of(method: Method, task: OpenSetTask, split: TrainedSplit, bf16: bool, store: Store) -> Path | None:
    """Folder of the network that a method scores; one of its own is found, or trained now in this process. None where
    its fine-tune failed, which the rows of the sweep say."""
    if method.train is not None:
        inputs = {
            "method": method.name,
            "task": split.task.digest,
            "recipe": decisive_fields(split.recipe),
            "bf16": bf16,
            "code": code_version(method.train.__module__),
        }
        train = functools.partial(method.train, task, split.recipe)
        made_on = hardware(uses_gpu=torch.cuda.is_available())  # it trains in this process, not in Ray's workers
        return store.run(METHODS_STAGE, inputs, train, made_on).path
    if method.finetune is None:
        return split.pretrained.path
    (trial,) = split.trials([method.finetune(split.recipe.finetune)], store, bf16)
    return trial.folder if load_if_complete(trial.folder) is not None else None


def _row(method: Method, folder: Path, logits: Tables, task: OpenSetTask, split: TrainedSplit) -> Row:
    report = method_report(method, logits, task, split.recipe.calibration.target_rate)
    folders = [folder] if method.train is not None else list(dict.fromkeys([split.pretrained.path, folder]))
    manifests = [read_json(each / MANIFEST) for each in folders]
    return {
        "split_index": split.index,
        "method": method.name,
        "metrics": report.flat(),
        "seconds": sum(float(manifest["seconds"]) for manifest in manifests),
        "trained_on": sorted({manifest["made_on"] for manifest in manifests}),
    }
