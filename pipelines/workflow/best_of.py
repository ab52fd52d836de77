"""The best trial of a sweep, or an ensemble of the best ones, as a version in the registry, chosen on validation images
and development unknowns."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.console import warn
from pipelines.output_files import RECIPE
from pipelines.reports.sweep_table import TABLE, SweepTable, read_table
from pipelines.storage.opening import open_storage
from pipelines.storage.storage import Storage, find_artefact, find_content
from pipelines.tracking.data_sets import data_sets
from pipelines.tracking.registry import Registered, register
from pipelines.tracking.server import connect
from pipelines.tracking.sweep_runs import fetch_report, find_run, run_of_model
from pipelines.tracking.versions import CHOSEN_AMONG
from pipelines.workflow.stages.evaluate import CLASSIFIER, Networks
from proser_core.baselines.controls import controls
from proser_core.config import FinetuneConfig, Recipe, from_json
from proser_core.digests import sha256_of
from proser_core.errors import ConfigError, TrackingError
from proser_core.jobs import spec
from proser_core.jobs.network_choice import Candidate, choose_network, trained_control
from proser_core.jobs.network_tables import trained_network
from proser_core.jobs.selection import Row, finetune_of, num_compared, ranked
from proser_core.jobs.trials import plan_pretraining
from proser_core.networks.ensembles import EnsembleNet
from proser_core.networks.nets import PlaceholderNet
from proser_core.recognition.classifier_files import CARD
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.mean_tables import mean_tables
from proser_core.recognition.score_choice import Tables
from proser_core.recognition.scored_network import fitting_targets, score_network
from proser_core.recognition.scores import MaxLogit, own_score
from proser_core.recognition.trained_classifier import Member
from proser_core.store.files import read_json
from proser_core.store.store import MANIFEST, Artefact
from proser_core.titles import BEST_TRIAL, CE_ENSEMBLE, PROSER, counted, scored

MOST_MEMBERS = 10
"""Largest number of trials in an ensemble: each prediction takes as many forward passes."""
Metrics = dict[str, float]
PlainTables = tuple[Tables | None, Tables | None]
"""The tables of both networks trained by cross-entropy, the pretrained one and the control; None for one that the
storage lacks, or that nothing reads."""


def register_best(
    sweep: str,
    storage: Path | str,
    split_index: int | None,
    model: str,
    *,
    members: int = 1,
    say: Callable[[str], None] = warn,
) -> Registered:
    """Register a sweep's best trial on development data, or the ensemble of its best ones, as the candidate, or find
    its version, and say what it is; the sweep is given by the name or id of its run, and an empty `model` is that of
    its recipe. Raises TrackingError for a run that is no finished sweep, ConfigError for a class split that it does not
    have, too few trials, or a storage without them or in which another run works."""
    client = connect()
    run = find_run(client, sweep)
    with tempfile.TemporaryDirectory() as place:
        report = fetch_report(client, run, (TABLE, RECIPE), Path(place))
        table, recipe = read_table(report), from_json(Recipe, read_json(report / RECIPE))
        rows = best_rows(table, recipe.finetune, split_index, members)
        points = num_compared(row for row in table.rows if row["split_index"] == rows[0]["split_index"])
        _check(recipe, members)
        folder, network, networks = _saved(table, recipe, rows, storage, say, Path(place))
        digest, tags = sha256_of(folder / CARD), {"proser.recipe": recipe.name, CHOSEN_AMONG: str(points)}
        if members > 1:
            tags["proser.members"] = "; ".join(row["name"] for row in rows)
        made = run_of_model(client, run, network["key"], digest, members)
        images = data_sets(networks.recipe, networks.task)
        found = register(client, made, model or recipe.model_name, folder, digest, tags, images)
    say(f"{found.name} version {found.version} is {_in_words(network, rows, points)}")
    return found


def _saved(
    table: SweepTable, recipe: Recipe, rows: Sequence[Row], storage: Path | str, say: Callable[[str], None], place: Path
) -> tuple[Path, Row, Networks]:
    """The folder of a saved classifier, which is the best trial of `rows`, the control in its place, or the ensemble of
    all of them; the trial that it is or, of an ensemble, the best one; and the networks of that class split."""
    with _opened(storage, recipe.calibration.reads_embeddings, say) as (root, store):
        control = trained_control(table.rows, rows[0]["split_index"], recipe.finetune)
        may_be_model = [*rows, control] if control and recipe.calibration.network != "proser" else rows
        trials = [_trial(storage, root, store, row) for row in may_be_model]
        task = _task_of(trials[0], store)
        # of the trial: those of a sweep may differ, and its images may be those of another seed too
        seed = _inputs_of(trials[0])["seed"]
        recipe = replace(recipe, data=replace(recipe.data, split_index=rows[0]["split_index"]), seed=seed)
        networks = Networks(recipe, task, trials[0].path.parent, store)
        plain: PlainTables = (None, None)
        if recipe.calibration.mirror or len(rows) > 1:
            plain = _plain_tables(networks, trials[0], control, store)
        return *_classifier(networks, table, rows, control, plain, place), networks


def _check(recipe: Recipe, members: int) -> None:
    """Raises ConfigError for a sweep's recipe of which so many trials cannot be registered here."""
    if recipe.calibration.development:
        raise ConfigError(
            "the sweep's recipe has calibration.development, whose images only `proser run` reads; run the recipe "
            "with the fields of the best point, or without calibration.development"
        )
    if members > 1 and recipe.calibration.network != "proser":
        raise ConfigError(
            "--ensemble takes networks with placeholders, and the sweep's recipe has calibration.network "
            f"{recipe.calibration.network}; omit --ensemble, or sweep with --calibration.network proser"
        )
    weights, reads = recipe.network.weights_file, recipe.calibration.reads_embeddings
    if weights and (reads or recipe.network.is_frozen("finetune")) and not Path(weights).is_file():
        raise ConfigError(
            f"the sweep's network.weights_file {weights} is not on this machine, and a frozen backbone, a score of "
            "embeddings or mirrored images need it; copy it there, or promote on the machine of the sweep"
        )


def _in_words(network: Row, rows: Sequence[Row], points: int) -> str:
    """Which trials a model is, of how many points of their class split: the best of `rows`, the mean of several, or the
    control in their place."""
    split, best = f"class split {network['split_index']}", rows[0]["name"]
    if network["key"] != rows[0]["key"]:
        return f"{network['name']} of {split}, in place of the best point there, {best}"
    if len(rows) == 1:
        return f"{best} of {split}, the best of {counted(points, 'point')} there on development data"
    names = ", ".join(row["name"] for row in rows)
    return f"the mean of {names} of {split}, the best {len(rows)} of {points} points there on development data"


@contextmanager
def _opened(storage: Path | str, writes: bool, say: Callable[[str], None]) -> Iterator[tuple[Path, Storage | None]]:
    """The folder on this machine with the sweep's trainings, and their storage, locked; None in place of the storage
    for a folder that is only read."""
    if isinstance(storage, Path) and not writes:
        yield storage.resolve(), None
        return
    with open_storage(storage, "proser promote --best-of", say) as store:
        yield store.root, store


def best_rows(table: SweepTable, own_point: FinetuneConfig, split_index: int | None, count: int = 1) -> list[Row]:
    """The `count` best trials of different points on one class split, in the order in which a run of the same points
    would rank them; without an index, on the first. Raises ConfigError for another split and for fewer than `count`,
    TrackingError for none."""
    split = next(iter(table.splits)) if split_index is None else split_index
    if split not in table.splits:
        raise ConfigError(f"--split-index got {split}; the sweep has {', '.join(map(str, table.splits))}")
    rows = [point[0] for point in ranked((row for row in table.rows if row["split_index"] == split), own_point)]
    if not rows:
        raise TrackingError(f"no trial of the sweep has finished on class split {split}; run the sweep again")
    if len(rows) < count:
        raise ConfigError(
            f"--ensemble got {count}; trials with placeholders that have finished on class split {split}: {len(rows)}. "
            "Give no more, or sweep more points"
        )
    return rows[:count]


def _trial(storage: Path | str, root: Path, store: Storage | None, row: Row) -> Artefact:
    trial = find_artefact(store, root / spec.TRIALS / row["key"])
    if trial is None:
        raise ConfigError(
            f"--storage got {storage}, which does not hold all of trial {row['key']}; give the storage of the sweep, "
            "or repeat the sweep"
        )
    return trial


def _classifier(
    networks: Networks, table: SweepTable, rows: Sequence[Row], control: Row | None, plain: PlainTables, place: Path
) -> tuple[Path, Row]:
    """The folder of a saved classifier, and the trial that it is or, of an ensemble, the best one."""
    split_index = rows[0]["split_index"]
    others = {each["name"]: each["metrics"] for each in table.controls if each["split_index"] == split_index}
    if networks.recipe.calibration.mirror:  # the sweep's own are not of mirrored images
        others = _controls(networks, *plain)
    if len(rows) == 1:
        return _save_best(networks, rows[0], control, others, place)
    others |= _ce_ensemble(networks, *plain)
    return _save_ensemble(networks, rows, others, place), rows[0]


def _save_best(
    networks: Networks, row: Row, trained: Row | None, others: dict[str, Metrics], place: Path
) -> tuple[Path, Row]:
    """Save the best trial or, where the recipe has it or development data chooses it, the control beside it."""
    wanted, proser = networks.recipe.calibration.network, Candidate(row, networks.scored(row), PROSER)
    control = None
    if trained and wanted != "proser":
        control = networks.control(trained, networks.trial_tables(trained))
    model, network = choose_network(wanted, proser, control)
    others = {PROSER: proser.scored.report.flat(), **others} if model is not proser else others
    others = {name: metrics for name, metrics in others.items() if name != model.method}
    return networks.save_classifier(model.trial, model.scored, others, place, network=network), model.trial


def _save_ensemble(networks: Networks, rows: Sequence[Row], others: dict[str, Metrics], place: Path) -> Path:
    """Save the mean of these trials, the best first, beside that one by itself."""
    recipe, task = replace(networks.recipe, finetune=finetune_of(rows[0])), networks.open_set_task
    nets = []
    for row in rows:
        weights = networks.trial_folders / row["key"] / spec.WEIGHTS
        net = trained_network(recipe, finetune_of(row), task.num_known, weights)
        assert isinstance(net, PlaceholderNet)
        nets.append(net)
    tables = [networks.trial_tables(row) for row in rows]
    alone = [score_network(recipe, own_score(recipe), each, task) for each in tables]
    together = score_network(recipe, own_score(recipe), mean_tables(tables), task)
    members = [Member(row["key"], row["name"], each.report.flat()) for row, each in zip(rows, alone, strict=True)]
    others = {BEST_TRIAL: members[0].results, **others}
    together.classifier(EnsembleNet(nets), task, recipe, controls=others, members=members).save(place / CLASSIFIER)
    return place / CLASSIFIER


def _plain_tables(networks: Networks, trial: Artefact, control: Row | None, store: Storage | None) -> PlainTables:
    """The plain tables of a trial's class split."""
    pretrained = _pretraining_of(trial, networks.recipe, networks.task, store)
    if control and find_artefact(store, networks.trial_folders / control["key"]) is None:
        control = None
    return (
        None if pretrained is None else networks.tables(pretrained.path),
        networks.trial_tables(control) if control else None,
    )


def _controls(networks: Networks, pretrained: Tables | None, control: Tables | None) -> dict[str, Metrics]:
    """The baselines of a trial, as far as their networks are in the storage."""
    recipe, task, either = networks.recipe, networks.open_set_task, pretrained or control
    targets = None if either is None else fitting_targets(recipe, task, either)
    reports = controls(pretrained, control, task, recipe.calibration.target_rate, targets)
    return {name: report.flat() for name, report in reports.items()}


def _ce_ensemble(networks: Networks, pretrained: Tables | None, control: Tables | None) -> dict[str, Metrics]:
    """The mean of the two as an ensemble's control; empty without one of them."""
    if pretrained is None or control is None:
        return {}
    tables = mean_tables([pretrained, control])
    report = evaluate(tables, MaxLogit(), networks.open_set_task, networks.recipe.calibration.target_rate)
    return {scored(CE_ENSEMBLE, MaxLogit.name): report.flat()}


def _task_of(trial: Artefact, store: Storage | None) -> Artefact:
    """The prepared images that a trial was trained on."""
    found = _input_of(trial, "task", spec.PREPARE, store)
    if found is None:
        raise ConfigError(
            f"{trial.path.parents[1]} does not hold the images of trial {trial.path.name}; run the same sweep again"
        )
    return found


def _pretraining_of(trial: Artefact, recipe: Recipe, task: Artefact, store: Storage | None) -> Artefact | None:
    """The pretrained network of a trial's class split, from which one that begins from scratch does not begin; None
    where the storage lacks it, or this machine the weights from which it begins."""
    inputs = _inputs_of(trial)
    if inputs["weights"]:
        return _input_of(trial, "weights", spec.PRETRAIN, store)
    weights = recipe.network.weights_file
    if weights and not Path(weights).is_file():  # its key needs them
        return None
    plan = plan_pretraining(recipe, task, trial.path.parents[1], code=inputs["code"])
    return find_artefact(store, plan.folder)


def _input_of(trial: Artefact, name: str, stage: str, store: Storage | None) -> Artefact | None:
    """What a trial was made of, by its digest in the trial's manifest."""
    return find_content(store, trial.path.parents[1] / stage, _inputs_of(trial)[name])


def _inputs_of(trial: Artefact) -> dict[str, Any]:
    """What decided a trial, by its manifest."""
    return read_json(trial.path / MANIFEST)["inputs"]
