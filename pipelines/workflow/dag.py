"""The stages of a run or a sweep as a Hamilton DAG: each public function is a node, its arguments are its inputs.

A node serves all class splits, so that their trainings share the cluster. A run is a sweep of one class split, whose
trials are then evaluated, reported and registered. `reproduction.dag` has further nodes behind `splits` and `trials`.
"""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.storage.storage import Storage
from pipelines.tracking.data_sets import data_sets
from pipelines.tracking.registry import Registered, register
from pipelines.tracking.versions import CHOSEN_AMONG
from pipelines.workflow.own_images import parts_of_notes
from pipelines.workflow.session import TrainingSession, warn_of_mirror
from pipelines.workflow.stage import stage
from pipelines.workflow.stages.evaluate import CLASSIFIER, Networks, evaluate_run, read_evaluation
from pipelines.workflow.stages.images import prepare
from pipelines.workflow.stages.pretrain import pretrain
from pipelines.workflow.stages.report import report, report_sweep
from pipelines.workflow.stages.sweep import sweep, track_rows
from pipelines.workflow.stages.trial_rows import read_rows
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.config import FinetuneConfig, Recipe
from proser_core.data.data_sets import DataRoot
from proser_core.data.mirroring import with_flips
from proser_core.data.tasks import TaskSummary
from proser_core.digests import sha256_of
from proser_core.jobs.further_development import further_images
from proser_core.jobs.selection import num_compared, ranked
from proser_core.jobs.spec import TRIALS
from proser_core.jobs.task_checks import check_batches
from proser_core.recognition.classifier_files import CARD
from proser_core.recognition.validation_scores import Proxy
from proser_core.store.store import Artefact, BuildResult
from tune_spaces import SpaceInfo


def prepared(
    recipes: list[Recipe],
    data_inputs: list[dict[str, Any]],
    data_dir: DataRoot,
    finetunes: list[FinetuneConfig],
    session: TrainingSession,
) -> list[Artefact]:
    """Images by role: train, val, development, test."""
    tasks = []
    for recipe, inputs in zip(recipes, data_inputs, strict=True):
        tasks.append(prepare(recipe, inputs, data_dir, session))
        check_batches(recipe, finetunes, tasks[-1].path)
        summary = TaskSummary.read(tasks[-1].path)
        notes = with_flips(summary.notes, recipe, flip=summary.flip)
        for name, parts in parts_of_notes(notes, recipe.data).items():
            for number, part in enumerate(parts):
                session.say(f"  {part}" if number else f"{name}, class split {recipe.data.split_index}: {part}")
        if recipe.data.flip == "auto":
            warn_of_mirror(replace(recipe, data=recipe.data.decided(flip=summary.flip)), session.console)
    found = [each for recipe, task in zip(recipes, tasks, strict=True) for each in data_sets(recipe, task)]
    session.tracking.track(session.run.log_data_sets, found)
    return tasks


def pretrained(
    recipes: list[Recipe], prepared: list[Artefact], pretrained_file: Path | None, session: TrainingSession
) -> list[Artefact]:
    """Closed-set weights, and their logits on every image."""
    return pretrain(recipes, prepared, pretrained_file, session)


def splits(recipes: list[Recipe], prepared: list[Artefact], pretrained: list[Artefact]) -> list[TrainedSplit]:
    """What fine-tunes start from."""
    return [TrainedSplit(*parts) for parts in zip(recipes, prepared, pretrained, strict=True)]


def planned(splits: list[TrainedSplit], finetunes: list[FinetuneConfig], store: Storage) -> list[str]:
    """The keys of all trials, which hold the code that trains them."""
    return [trial.key for split in splits for trial in split.trials(finetunes, store)]


@stage("sweep")
def swept(
    splits: list[TrainedSplit],
    finetunes: list[FinetuneConfig],
    planned: list[str],
    spaces: dict[str, list[FinetuneConfig]],
    stoppable: list[FinetuneConfig],
    max_seconds: float,
    session: TrainingSession,
    folder: Path,
) -> BuildResult:
    """Every fine-tune on every class split, trained and evaluated, but for what was stopped early."""
    return sweep(splits, finetunes, spaces, stoppable, max_seconds, session, folder)


def trials(swept: Artefact, session: TrainingSession) -> list[dict[str, Any]]:
    """A row per trial, in tracking too."""
    rows = read_rows(swept)
    track_rows(rows, session)
    return rows


def further_unknowns(splits: list[TrainedSplit], data_dir: DataRoot, store: Storage) -> list[Artefact | None]:
    """Of each class split, the further development unknowns that a score is chosen by; None without any."""
    return [further_images(split.recipe, split.task, data_dir, store) for split in splits]


@stage("evaluate")
def evaluated(
    splits: list[TrainedSplit],
    trials: list[dict[str, Any]],
    proxy: Proxy | None,
    further_unknowns: list[Artefact | None],
    store: Storage,
    folder: Path,
) -> None:
    """The selected trial as a classifier, next to its baselines."""
    (split,), (further,) = splits, further_unknowns
    networks = Networks(split.recipe, split.task, store.root / TRIALS, store, further)
    evaluate_run(networks, split.pretrained, trials, proxy, folder)


@stage("report")
def reported(
    splits: list[TrainedSplit],
    trials: list[dict[str, Any]],
    evaluated: Artefact,
    space_infos: dict[str, SpaceInfo],
    names: list[tuple[str, str]],
    store: Storage,
    folder: Path,
) -> None:
    """Tables and figures, made anew where `space_infos` or `names` have changed."""
    (split,) = splits
    report(split, trials, evaluated, space_infos, store.root / TRIALS, folder)


def logged(evaluated: Artefact, reported: Artefact, session: TrainingSession) -> Artefact:
    """The report, in tracking too."""
    session.tracking.track(session.run.results, reported, read_evaluation(evaluated))
    return reported


def registered(
    splits: list[TrainedSplit],
    trials: list[dict[str, Any]],
    evaluated: Artefact,
    logged: Artefact,
    proxy: Proxy | None,
    session: TrainingSession,
) -> Registered | None:
    """The classifier as a version in the model registry, made by the selected trial; None where the tracking server
    went away."""
    (split,) = splits
    recipe, inputs = split.recipe, data_sets(split.recipe, split.task)
    num_points = num_compared(trials) if proxy is None else proxy.num_points
    tags = {"proser.recipe": recipe.name, CHOSEN_AMONG: str(num_points)}
    folder, run, made = evaluated.path / CLASSIFIER, session.run, list[Registered]()
    digest, key = sha256_of(folder / CARD), read_evaluation(evaluated)["selected"]["key"]

    def make() -> None:
        trial = nullcontext(run.child_id(key))
        made.append(register(run.client, trial, recipe.model_name, folder, digest, tags, inputs))

    session.tracking.track(make)
    session.tracking.settle()
    return made[0] if made else None


@stage("sweep_report")
def sweep_reported(
    splits: list[TrainedSplit],
    trials: list[dict[str, Any]],
    space_infos: dict[str, SpaceInfo],
    names: list[tuple[str, str]],
    store: Storage,
    folder: Path,
) -> None:
    """Tables and figures over all splits, made anew as `reported`."""
    report_sweep(splits, trials, space_infos, store.root / TRIALS, folder)


def sweep_logged(
    splits: list[TrainedSplit], trials: list[dict[str, Any]], sweep_reported: Artefact, session: TrainingSession
) -> Artefact:
    """The report and the best point, in tracking too."""
    best = next(iter(ranked(trials, splits[0].recipe.finetune)), [])
    session.tracking.track(session.run.swept, sweep_reported, best)
    return sweep_reported
