"""Stage evaluate: choose the point on development data, and set PROSER beside its controls."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.tracking.model_card import MODEL_CARD, model_card
from proser_core.baselines.tables import margins_of
from proser_core.config import FinetuneConfig, Recipe, to_json
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs import spec
from proser_core.jobs.selection import Row, finetune_of, select
from proser_core.jobs.trials import placeholder_scores
from proser_core.networks.nets import add_placeholders, make_closed_set_net
from proser_core.networks.weights import load_weights
from proser_core.recognition.evaluation import EvaluationReport, evaluate
from proser_core.recognition.holdout import Holdout, Proxy
from proser_core.recognition.logits import LogitTable, load_logits
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scoring import Margin, PlaceholderMargin
from proser_core.store.files import read_json, write_json
from proser_core.store.store import Artefact

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
    rate = recipe.calibration.target_rate
    margin = PlaceholderMargin(recipe.calibration.dummy_weight)
    tables = _tables(trial_folders, images, pretrained, trials, selected, recipe.finetune, margin)
    reports = {name: evaluate(logits, margin, images, rate) for name, (logits, margin) in tables.items()}
    found = None if proxy is None else proxy.results
    write_json(folder / EVALUATION, {**_to_json(selected, reports), "proxy": found})
    save_classifier(recipe, images, trial_folders / selected["key"], selected, reports, folder, proxy)


def _tables(
    trial_folders: Path,
    task: OpenSetTask,
    pretrained: Artefact,
    trials: list[Row],
    selected: Row,
    default: FinetuneConfig,
    own_margin: PlaceholderMargin,
) -> dict[str, tuple[dict[str, LogitTable], Margin]]:
    """Each method of the table: its logits and its margin."""

    def of_trial(row: Row) -> dict[str, LogitTable]:
        return load_logits(trial_folders / row["key"] / spec.LOGITS)

    chosen, base = of_trial(selected), load_logits(pretrained.path / spec.LOGITS)
    tables: dict[str, tuple[dict[str, LogitTable], Margin]] = {spec.PROSER: (chosen, own_margin)}
    own = next((row for row in trials if row["status"] == "finished" and finetune_of(row) == default), None)
    if own is not None and own["key"] != selected["key"]:
        tables[f"{spec.PROSER}, recipe's own point"] = (of_trial(own), own_margin)
    tables |= {name: (chosen, margin) for name, margin in placeholder_scores(own_margin).items()}
    tables |= {name: (base, margin) for name, margin in margins_of(base, task.train.targets).items()}
    control = next((r for r in trials if r["objective"] == "cross_entropy" and r["status"] == "finished"), None)
    if control is not None:
        logits = of_trial(control)
        margins = margins_of(logits, task.train.targets)
        tables |= {f"{spec.CONTROL}, {name}": (logits, margin) for name, margin in margins.items()}
    return tables


def _to_json(selected: Row, reports: dict[str, EvaluationReport]) -> dict[str, Any]:
    return {
        "selected": {"key": selected["key"], "name": selected["name"], "params": selected["params"]},
        "methods": {name: {"report": report.to_json(), "flat": report.flat()} for name, report in reports.items()},
    }


def save_classifier(
    recipe: Recipe,
    task: OpenSetTask,
    trial: Path,
    row: Row,
    reports: Mapping[str, EvaluationReport],
    folder: Path,
    proxy: Proxy | None = None,
) -> Path:
    """A trial as a classifier with its model card, in a folder below `folder`; `reports` holds its evaluation as
    PROSER, and those of its controls.
    """
    own = replace(recipe, finetune=finetune_of(row))
    closed_set = make_closed_set_net(recipe.network, task.num_known, recipe.data.image_size, recipe.seed)
    net = add_placeholders(closed_set, own.finetune.num_dummies, recipe.seed)
    load_weights(net, trial / spec.WEIGHTS)
    margin = PlaceholderMargin(recipe.calibration.dummy_weight)
    classifier = OpenSetClassifier(
        net=net,
        network=recipe.network,
        image_size=recipe.data.image_size,
        split=task.split,
        class_names=task.class_names,
        normalisation=(task.mean, task.std),
        margin=margin,
        calibration=reports[spec.PROSER].calibration,
        recipe=to_json(own),
        results=reports[spec.PROSER].flat(),
        holdout=Holdout.of(load_logits(trial / spec.LOGITS), margin, task),
        proxy=proxy,
    )
    classifier.save(folder / CLASSIFIER)
    others = {name: report.flat() for name, report in reports.items() if name != spec.PROSER}
    (folder / CLASSIFIER / MODEL_CARD).write_text(model_card(classifier, others, task.notes))
    return folder / CLASSIFIER


def read_evaluation(evaluated: Artefact) -> dict[str, Any]:
    """What `evaluate_run` wrote."""
    return read_json(evaluated.path / EVALUATION)
