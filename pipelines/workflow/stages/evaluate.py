"""Stage evaluate: choose the point on development data, and set PROSER beside its baselines."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from proser_core.baselines.tables import controls, placeholder_scores
from proser_core.config import Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs import spec
from proser_core.jobs.selection import Row, finetune_of, has_point, select
from proser_core.networks.heads import load_heads
from proser_core.networks.nets import add_placeholders, make_closed_set_net
from proser_core.networks.weights import load_weights
from proser_core.recognition.evaluation import EvaluationReport, evaluate
from proser_core.recognition.logits import LogitTable, load_logits
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scores import own_score
from proser_core.recognition.validation_scores import Proxy
from proser_core.store.files import read_json, write_json
from proser_core.store.store import Artefact
from proser_core.titles import OWN_POINT, PROSER

EVALUATION, CLASSIFIER = "evaluation.json", "classifier"


def evaluate_run(
    recipe: Recipe,
    task: Artefact,
    pretrained: Artefact,
    trials: list[Row],
    trial_folders: Path,
    proxy: Proxy | None,
    folder: Path,
) -> None:
    """Write the evaluation of every method, and the selected trial as an `OpenSetClassifier`."""
    images = OpenSetTask.load(task.path)
    selected = select(trials, recipe.finetune)
    assert selected is not None  # a sweep without any outcome has failed before
    reports = _reports(recipe, images, pretrained.path, trials, selected, trial_folders)
    evaluation = {
        "selected": {"key": selected["key"], "name": selected["name"], "params": selected["params"]},
        "methods": {name: {"report": report.to_json(), "flat": report.flat()} for name, report in reports.items()},
        "proxy": None if proxy is None else proxy.results,
    }
    write_json(folder / EVALUATION, evaluation)
    others = {name: report.flat() for name, report in reports.items() if name != PROSER}
    trial = trial_folders / selected["key"]
    save_classifier(recipe, images, trial, selected, reports[PROSER], others, folder, proxy)


def _reports(
    recipe: Recipe, task: OpenSetTask, pretrained: Path, rows: list[Row], selected: Row, trial_folders: Path
) -> dict[str, EvaluationReport]:
    """Each method of the table: the selected trial and its other scores, the recipe's own point, the baselines."""

    def logits_of(row: Row) -> dict[str, LogitTable]:
        return load_logits(trial_folders / row["key"] / spec.LOGITS)

    chosen, rate = logits_of(selected), recipe.calibration.target_rate
    score = own_score(recipe)
    reports = {PROSER: evaluate(chosen, score, task, rate)}
    finished = [row for row in rows if row["status"] == "finished"]
    own = next((row for row in finished if has_point(row, recipe.finetune)), selected)
    if own is not selected:
        reports[OWN_POINT] = evaluate(logits_of(own), score, task, rate)
    others = placeholder_scores(score).items()
    reports |= {name: evaluate(chosen, each, task, rate) for name, each in others if name != PROSER}
    control = next((logits_of(row) for row in finished if row["objective"] == "cross_entropy"), None)
    return reports | controls(load_logits(pretrained / spec.LOGITS), control, task, rate)


def save_classifier(
    recipe: Recipe,
    task: OpenSetTask,
    trial: Path,
    row: Row,
    report: EvaluationReport,
    others: Mapping[str, Mapping[str, float]],
    folder: Path,
    proxy: Proxy | None = None,
) -> Path:
    """Save a trial with its model card below `folder`; `report` is its evaluation, `others` its baselines' metrics."""
    own = replace(recipe, finetune=finetune_of(row))
    closed_set = make_closed_set_net(recipe.network, task.num_known, recipe.data.image_size, recipe.seed)
    net = add_placeholders(closed_set, own.finetune.num_dummies, recipe.seed)
    (load_heads if recipe.network.is_frozen("finetune") else load_weights)(net, trial / spec.WEIGHTS)
    score, logits = own_score(recipe), load_logits(trial / spec.LOGITS)
    classifier = OpenSetClassifier.of(net, score, logits, report, task, own, controls=others, proxy=proxy)
    classifier.save(folder / CLASSIFIER)
    return folder / CLASSIFIER


def read_evaluation(evaluated: Artefact) -> dict[str, Any]:
    """What `evaluate_run` wrote."""
    return read_json(evaluated.path / EVALUATION)
