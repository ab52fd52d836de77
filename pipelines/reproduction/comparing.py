"""Stage compare: the methods of the paper's tables on each class split, from the logits of what was trained."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.reproduction.trained_networks import TrainedNetwork, network_of
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.baselines import METHODS, Method
from proser_core.baselines.controls import fit_score, own_rule_metrics
from proser_core.config.calibration import AUTO
from proser_core.config.own_networks import ScheduleName
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ProserError
from proser_core.jobs.own_networks.worker import FACTS
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.score_choice import Tables, candidates
from proser_core.recognition.scored_network import fitting_targets, score_network
from proser_core.recognition.scores import MaxLogit
from proser_core.store.files import read_json, write_json
from proser_core.store.store import MANIFEST, Artefact, BuildResult, Store
from proser_core.titles import scored

COMPARED_FILE = "compared.json"
Row = dict[str, Any]


def compare(
    splits: Sequence[TrainedSplit],
    methods: Sequence[str],
    own_networks: ScheduleName,
    further_unknowns: Sequence[Artefact | None],
    store: Store,
    folder: Path,
) -> BuildResult:
    """Write a row per method and class split: its metrics, and how long and on what its trainings ran. There is none
    where its fine-tune failed. Where its own network was not trained or its logits cannot be calibrated, the comparison
    is incomplete as well: the next run tries again. Where the recipe asks for a score, the scores of each network but
    those of methods' own follow; `further_unknowns` are the further development unknowns of each split."""
    rows, failures = list[Row](), list[str]()
    for split, further in zip(splits, further_unknowns, strict=True):
        task = OpenSetTask.load(split.task.path)
        logits_of = functools.cache(TrainedNetwork.logits)  # several methods score one network
        tables_of = functools.cache(lambda network, split=split, further=further: network.tables(split, store, further))
        to_choose: dict[str, tuple[Method, TrainedNetwork]] = {}
        for method in (METHODS[name] for name in methods):
            try:
                network = network_of(method, split, own_networks, store)
                if network is None:
                    continue
                embeds = split.recipe.calibration.mirror or method.score.needs_embeddings
                tables = tables_of(network) if embeds else logits_of(network)
                rows.append(_row(method, network, tables, task, split))
                if split.recipe.calibration.score and not method.network:
                    to_choose.setdefault(method.network_title, (method, network))
            except ProserError as error:  # a network that has diverged
                failures.append(f"{method.name}, class split {split.index}: {error}")
        for title, (method, network) in to_choose.items():
            try:
                rows += _score_rows(method, network, tables_of(network), task, split, methods)
            except ProserError as error:  # the score that the recipe names cannot be fitted
                failures.append(f"{title}, class split {split.index}: {error}")
    write_json(folder / COMPARED_FILE, {"rows": rows, "failures": failures})
    return BuildResult(complete=not failures)


def read_compared(compared: Artefact) -> tuple[list[Row], list[str]]:
    """What `compare` wrote: rows of split_index, method, metrics, seconds, trained_on, what its own network said of
    itself and how its score was chosen, and why others are missing."""
    found = read_json(compared.path / COMPARED_FILE)
    return found["rows"], found["failures"]


def _row(method: Method, network: TrainedNetwork, tables: Tables, task: OpenSetTask, split: TrainedSplit) -> Row:
    score = fit_score(method, tables, fitting_targets(split.recipe, task, tables))
    report = evaluate(tables, score, task, split.recipe.calibration.target_rate)
    facts = read_json(network.folder / FACTS) if method.network else {}
    own = {"network": method.network, "key": network.folder.name} if method.network else {}
    metrics = report.flat() | own_rule_metrics(method, score, tables, task, facts)
    return {**_about(method.name, network, split), "metrics": metrics, "own": own}


def _score_rows(
    method: Method,
    network: TrainedNetwork,
    tables: Tables,
    task: OpenSetTask,
    split: TrainedSplit,
    methods: Sequence[str],
) -> list[Row]:
    """Rows of the scores of a method's network: all but those that `methods` have rows of, and the one that development
    data chooses; or the one that the recipe names, if the network has it."""
    wanted, plain = split.recipe.calibration.score, method.scores_pretrained
    own = MaxLogit() if plain else fit_score(method, tables, fitting_targets(split.recipe, task, tables))
    if wanted != AUTO and wanted not in {kind.name for kind in candidates(tables)}:
        return []
    choice = score_network(split.recipe, own, tables, task).choice
    assert choice is not None
    found = {
        each.score.name if plain else scored(method.network_title, each.score.name): each.evaluation
        for each in (choice.reports if wanted == AUTO else [choice.chosen])
        if plain or each.score != own
    }
    further = {name: report for name, report in found.items() if name not in methods}
    rows = [{**_about(name, network, split), "metrics": report.flat()} for name, report in further.items()]
    if wanted == AUTO:
        about = _about(scored(method.network_title, choice.title), network, split)
        rows.append({**about, "metrics": choice.chosen.evaluation.flat(), "choice": choice.in_words()})
    return rows


def _about(name: str, network: TrainedNetwork, split: TrainedSplit) -> Row:
    manifests = [read_json(each / MANIFEST) for each in network.trainings]
    return {
        "split_index": split.index,
        "method": name,
        "seconds": sum(float(manifest["seconds"]) for manifest in manifests),
        "trained_on": sorted({manifest["made_on"] for manifest in manifests}),
    }
