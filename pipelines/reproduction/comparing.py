"""Stage compare: the methods of the paper's tables on each class split, from the logits of what was trained."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.workflow.training import TrainedSplit
from proser_core.baselines import METHODS, Method
from proser_core.baselines.tables import Tables, fit_score, own_rule_metrics
from proser_core.config.own_networks import ScheduleName
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ProserError, TrainingError
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.jobs.own_plans import plan_own
from proser_core.jobs.own_worker import FACTS
from proser_core.jobs.spec import LOGITS
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logits import load_logits
from proser_core.store.files import read_json, write_json
from proser_core.store.store import MANIFEST, Artefact, BuildResult, Store, load_if_complete

COMPARED = "compared.json"
Row = dict[str, Any]


@dataclass(frozen=True)
class ScoredNetwork:
    """Folder with the logits that a method scores, and every training that led to it, in order."""

    folder: Path
    trainings: tuple[Path, ...]


def compare(
    splits: Sequence[TrainedSplit],
    methods: Sequence[str],
    own_networks: ScheduleName,
    bf16: bool,
    store: Store,
    folder: Path,
) -> BuildResult:
    """Write a row per method and class split: its metrics, and how long and on what its trainings ran. There is none
    where its fine-tune failed. Where its own network was not trained or its logits cannot be calibrated, the comparison
    is incomplete as well: the next run tries again."""
    rows, failures = list[Row](), list[str]()
    for split in splits:
        task = OpenSetTask.load(split.task.path)
        logits_in = functools.cache(load_logits)  # several methods score one network
        for method in (METHODS[name] for name in methods):
            try:
                network = network_of(method, split, own_networks, bf16, store)
                if network is not None:
                    rows.append(_row(method, network, logits_in(network.folder / LOGITS), task, split))
            except ProserError as error:  # a network that has diverged
                failures.append(f"{method.name}, class split {split.index}: {error}")
    write_json(folder / COMPARED, {"rows": rows, "failures": failures})
    return BuildResult(complete=not failures)


def read_compared(compared: Artefact) -> tuple[list[Row], list[str]]:
    """What `compare` wrote: rows of split_index, method, metrics, seconds, trained_on and what its own network said of
    itself, and why others are missing."""
    found = read_json(compared.path / COMPARED)
    return found["rows"], found["failures"]


def network_of(
    method: Method, split: TrainedSplit, own_networks: ScheduleName, bf16: bool, store: Store
) -> ScoredNetwork | None:
    """What a method scores. None where its fine-tune failed, which the rows of the sweep say. Raises TrainingError
    where a network of its own was not trained."""
    if method.network:
        plan = plan_own(OWN_NETWORKS[method.network], own_networks, split.recipe, split.task, store, bf16)
        if plan.outcome() is None:
            raise TrainingError(plan.failure() or "its network was not trained")
        return ScoredNetwork(plan.folder, tuple(each.folder for each in plan.with_parts))
    pretrained = split.pretrained.path
    if method.finetune is None:
        return ScoredNetwork(pretrained, (pretrained,))
    (trial,) = split.trials([method.finetune(split.recipe.finetune)], store, bf16)
    if load_if_complete(trial.folder) is None:
        return None
    return ScoredNetwork(trial.folder, (pretrained, trial.folder))


def _row(method: Method, network: ScoredNetwork, logits: Tables, task: OpenSetTask, split: TrainedSplit) -> Row:
    score = fit_score(method, logits, task.train.targets)
    report = evaluate(logits, score, task, split.recipe.calibration.target_rate)
    manifests = [read_json(each / MANIFEST) for each in network.trainings]
    facts = read_json(network.folder / FACTS) if method.network else {}
    own = {"network": method.network, "key": network.folder.name} if method.network else {}
    return {
        "split_index": split.index,
        "method": method.name,
        "metrics": report.flat() | own_rule_metrics(method, score, logits, task, facts),
        "seconds": sum(float(manifest["seconds"]) for manifest in manifests),
        "trained_on": sorted({manifest["made_on"] for manifest in manifests}),
        "own": own,
    }
