"""Stage compare: the methods of the paper's tables on each class split, from the logits of what was trained."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    """Write a row per method and class split: its metrics, and how long and on what its trainings ran.

    A method whose fine-tune failed on a split has no row there, nor one whose own network cannot be trained or whose
    logits cannot be calibrated, which leaves the comparison incomplete: the next run tries it again.
    """
    comparison = _Comparison(bf16, store)
    rows = [row for split in splits for row in comparison.rows(split, methods)]
    write_json(folder / COMPARED, {"rows": rows, "failures": comparison.failures})
    return BuildResult(complete=not comparison.failures)


def read_compared(compared: Artefact) -> tuple[list[Row], list[str]]:
    """What `compare` wrote: rows of split_index, method, metrics, seconds, trained_on, and why others are missing."""
    found = read_json(compared.path / COMPARED)
    return found["rows"], found["failures"]


@dataclass
class _Comparison:
    """Methods on the class splits of one storage."""

    bf16: bool
    store: Store
    failures: list[str] = field(default_factory=list)

    def rows(self, split: TrainedSplit, names: Sequence[str]) -> list[Row]:
        """Of one class split."""
        task, rows = OpenSetTask.load(split.task.path), []
        logits_in = functools.cache(load_logits)  # several methods score one network
        for method in (METHODS[name] for name in names):
            try:
                folder = self._folder_of(method, task, split)
                if folder is not None:
                    rows.append(_row(method, folder, logits_in(folder / LOGITS), task, split))
            except ProserError as error:  # a network that has diverged
                self.failures.append(f"{method.name}, class split {split.index}: {error}")
        return rows

    def _folder_of(self, method: Method, task: OpenSetTask, split: TrainedSplit) -> Path | None:
        """Of the network that the method scores; one of its own is trained now where it is not found. None where its
        fine-tune failed, which the rows of the sweep say."""
        if method.train is not None:
            return self._trained(method, task, split)
        if method.finetune is None:
            return split.pretrained.path
        (trial,) = split.trials([method.finetune(split.recipe.finetune)], self.store, self.bf16)
        return trial.folder if load_if_complete(trial.folder) is not None else None

    def _trained(self, method: Method, task: OpenSetTask, split: TrainedSplit) -> Path:
        """The folder of a method that trains a network of its own: found, or trained now, in this process."""
        train = method.train
        assert train is not None
        inputs = {
            "method": method.name,
            "task": split.task.digest,
            "recipe": decisive_fields(split.recipe),
            "bf16": self.bf16,
            "code": code_version(train.__module__),
        }
        made_on = hardware(uses_gpu=torch.cuda.is_available())  # it trains in this process, not in Ray's workers
        return self.store.run(METHODS_STAGE, inputs, lambda folder: train(task, split.recipe, folder), made_on).path


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
