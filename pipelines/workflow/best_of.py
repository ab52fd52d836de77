"""The best trial of a sweep as a version in the registry, chosen on validation images and development unknowns."""

import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.output_files import RECIPE
from pipelines.reports.sweep_table import TABLE, SweepTable, read_table
from pipelines.tracking.data_sets import data_sets
from pipelines.tracking.registry import Registered, register
from pipelines.tracking.server import connect
from pipelines.tracking.sweep_runs import fetch_report, find_run, trial_run
from pipelines.workflow.stages.evaluate import Networks
from proser_core.config import FinetuneConfig, Recipe, from_json
from proser_core.data.tasks import OpenSetTask
from proser_core.digests import sha256_of
from proser_core.errors import ConfigError, TrackingError
from proser_core.jobs import spec
from proser_core.jobs.selection import select
from proser_core.recognition.classifier_files import CARD
from proser_core.store.files import read_json
from proser_core.store.lock import exclusive_storage
from proser_core.store.store import MANIFEST, Artefact, Store, load_if_complete


def register_best(sweep: str, storage: Path, split_index: int | None, model: str) -> Registered:
    """Register a sweep's best trial on development data as the candidate, or find its version; the sweep is given by
    the name or id of its run. Raises TrackingError for a run that is no finished sweep, ConfigError for a class split
    that it does not have, or a storage without its trials."""
    client = connect()
    run = find_run(client, sweep)
    with tempfile.TemporaryDirectory() as place:
        report = fetch_report(client, run, (TABLE, RECIPE), Path(place))
        table, recipe = read_table(report), from_json(Recipe, read_json(report / RECIPE))
        row = best_row(table, recipe.finetune, split_index)
        recipe = replace(recipe, data=replace(recipe.data, split_index=row["split_index"]))
        if recipe.calibration.development:
            raise ConfigError(
                "the sweep's recipe has calibration.development, whose images only `proser run` reads; run the recipe "
                "with the fields of the best point, or without calibration.development"
            )
        trial = _trial(storage, row)
        task = _task_of(trial, trial.path.parents[1])
        folder = _classifier(table, recipe, row, trial, task, Path(place))
        made, tags = nullcontext(trial_run(client, run, row["key"])), {"proser.recipe": recipe.name}
        return register(client, made, model, folder, sha256_of(folder / CARD), tags, data_sets(recipe, task))


def best_row(table: SweepTable, own: FinetuneConfig, split_index: int | None) -> dict[str, Any]:
    """The trial that a run of the same points would select on one class split; without an index, on the first."""
    split = next(iter(table.splits)) if split_index is None else split_index
    if split not in table.splits:
        raise ConfigError(f"--split-index got {split}; the sweep has {', '.join(map(str, table.splits))}")
    row = select((row for row in table.rows if row["split_index"] == split), own)
    if row is None:
        raise TrackingError(f"no trial of the sweep has finished on class split {split}; give the sweep again")
    return row


def _trial(storage: Path, row: dict[str, Any]) -> Artefact:
    trial = load_if_complete(storage.expanduser().resolve() / spec.TRIALS / row["key"])
    if trial is None:
        raise ConfigError(
            f"--storage got {storage}, which does not hold trial {row['key']} whole; give the storage of the sweep, or "
            "the same sweep again"
        )
    return trial


def _classifier(
    table: SweepTable, recipe: Recipe, row: dict[str, Any], trial: Artefact, task: Artefact, place: Path
) -> Path:
    storage = trial.path.parents[1]
    writes = recipe.calibration.reads_embeddings
    networks = Networks(
        recipe, task, OpenSetTask.load(task.path), trial.path.parent, Store(storage) if writes else None
    )
    baselines = [each for each in table.controls if each["split_index"] == row["split_index"]]
    others = {each["name"]: each["metrics"] for each in baselines}
    with exclusive_storage(storage, "proser promote --best-of") if writes else nullcontext():
        return networks.save_classifier(row, networks.scored(row), others, place)


def _task_of(trial: Artefact, storage: Path) -> Artefact:
    """The prepared images that a trial was trained on, by their digest in its manifest."""
    wanted = read_json(trial.path / MANIFEST)["inputs"]["task"]
    tasks = (load_if_complete(folder) for folder in sorted((storage / spec.PREPARE).glob("*")))
    found = next((task for task in tasks if task is not None and task.digest == wanted), None)
    if found is None:
        raise ConfigError(f"{storage} does not hold the images of trial {trial.path.name}; give the same sweep again")
    return found
