"""All trainings of a JOB.json in this one process, one after the other, into a storage of their own.

The folders and their keys are those of the pipeline, so that `proser import` only has to copy them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from proser_core.baselines.tables import closed_set_scores, placeholder_scores
from proser_core.config import Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, ProserError, TrainingError, first_line
from proser_core.jobs import spec
from proser_core.jobs.job_file import JobFile
from proser_core.jobs.preparing import (
    check_batches,
    check_machine,
    check_prepared_for,
    check_split,
    prepare_inputs,
    prepare_task,
)
from proser_core.jobs.progress import EpochProgress
from proser_core.jobs.trials import Trial, plan_trials, pretrain_job
from proser_core.jobs.worker import run_job
from proser_core.processor import resolve_precision
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logits import load_logits
from proser_core.recognition.scores import ScoreFunction
from proser_core.store.files import write_atomically, write_json
from proser_core.store.lock import exclusive_storage
from proser_core.store.store import Artefact, Store, load_if_complete
from proser_core.store.transfer import check_artefact, import_artefact
from proser_core.titles import PRETRAINED

JOB_FILE, RESULTS = "JOB.json", "results.json"


@dataclass
class Outcome:
    """What a run came to: metrics as in results.json, how many trainings ran, and the failed ones' reasons."""

    results: dict[str, Any]
    trained: int = 0
    failures: dict[str, str] = field(default_factory=dict)


def run(job: JobFile, out: Path, progress: EpochProgress) -> Outcome:
    """Pretrain, fine-tune and evaluate what is not there yet; JOB.json and results.json lie in `out`.

    A fine-tune that fails does not stop the others. Raises ConfigError before any training for what cannot
    work here, TrainingError where the pretraining fails.
    """
    recipe = job.recipe
    check_machine(recipe)
    store = Store(out)
    with exclusive_storage(store.root, f"python -m proser_core.job, {recipe.name}"):
        task = _prepared(job, store)
        check_batches(recipe, job.finetunes, task.path)
        job.save(store.root / JOB_FILE)
        bf16 = resolve_precision(recipe)
        about = {"recipe": recipe.name, "bf16": bf16, "task": task.path.name, "trainings": {}}
        outcome, images = Outcome(about), OpenSetTask.load(task.path)
        progress.expect("finetune", sum(tuned.epochs for tuned in dict.fromkeys(job.finetunes)))
        pretrained = _pretrained(job, task, store, bf16, progress, outcome)
        _evaluate(outcome, store, PRETRAINED, pretrained.path, None, images, recipe)
        trials = plan_trials(recipe, job.finetunes, task, pretrained, store, bf16=bf16, code=job.code.train)
        waiting = [trial for trial in trials if load_if_complete(trial.folder) is None]
        progress.expect("finetune", sum(trial.recipe.finetune.epochs for trial in waiting))
        for number, trial in enumerate(trials, start=1):
            name = f"[{number}/{len(trials)}] {trial.name}"
            if trial in waiting:
                _train(trial.job(task, pretrained, bf16), name, trial.recipe.finetune.epochs, progress, outcome)
            _score(outcome, store, trial, images)
    return outcome


def _prepared(job: JobFile, store: Store) -> Artefact:
    if job.task is not None:
        inputs = check_artefact(job.task).inputs
        check_prepared_for(job.recipe, inputs, job.task)
        if inputs.get("code") != job.code.prepare:
            raise ConfigError(
                f"{job.task} was prepared by other code than JOB.json says, and `proser import` would refuse it; "
                "write both again with `proser job --with-task`"
            )
        return import_artefact(job.task, spec.PREPARE, store)
    check_split(job.recipe, job.data_dir)
    inputs = prepare_inputs(job.recipe, job.data_dir)
    return prepare_task(job.recipe, inputs, job.data_dir, store, job.code.prepare)


def _pretrained(
    job: JobFile, task: Artefact, store: Store, bf16: bool, progress: EpochProgress, outcome: Outcome
) -> Artefact:
    recipe = job.recipe
    inputs = spec.job_inputs("pretrain", recipe, task, "", bf16, job.code.train)

    folder = store.folder(spec.PRETRAIN, inputs)
    if load_if_complete(folder) is None:
        progress.expect("pretrain", recipe.pretrain.epochs)
        training = pretrain_job(recipe, task, folder, bf16, inputs=inputs)
        _train(training, "pretraining", recipe.pretrain.epochs, progress, outcome)
    found = load_if_complete(folder)
    if found is None:
        raise TrainingError(f"pretraining: {next(iter(outcome.failures.values()), 'its outcome was changed')}")
    return found


def _train(job: spec.Job, name: str, epochs: int, progress: EpochProgress, outcome: Outcome) -> None:
    folder = Path(job.folder)
    done = len(spec.read_epochs(folder)) if (folder / spec.STATE).is_file() else 0
    progress.begin(name, job.kind, epochs, done)
    try:
        run_job(job, progress.epoch)
        outcome.trained += 1
    except (ProserError, torch.OutOfMemoryError) as error:
        out_of_memory = isinstance(error, torch.OutOfMemoryError)
        reason = f"{first_line(error)} Use a smaller {job.kind}.batch_size" if out_of_memory else str(error)
        write_atomically(folder / spec.FAILURE, reason.encode())
        outcome.failures[name] = reason
    finally:
        progress.close()


def _score(outcome: Outcome, store: Store, trial: Trial, images: OpenSetTask) -> None:
    if load_if_complete(trial.folder) is None:
        failure = trial.folder / spec.FAILURE
        _add(outcome, store, trial.name, trial.folder, {}, failure.read_text() if failure.is_file() else "unfinished")
        return
    scores = None if trial.is_control else placeholder_scores(trial.score_function)
    _evaluate(outcome, store, trial.name, trial.folder, scores, images, trial.recipe)


def _evaluate(
    outcome: Outcome,
    store: Store,
    name: str,
    folder: Path,
    scores: Mapping[str, ScoreFunction] | None,
    images: OpenSetTask,
    recipe: Recipe,
) -> None:
    """Metrics of a trained net by method; one that cannot be calibrated makes the training a failed one.

    Without `scores`, it is a net without placeholders, and every score of such a one.
    """
    logits = load_logits(folder / spec.LOGITS)
    if scores is None:
        scores = {score.name: score for score in closed_set_scores(logits, images.train.targets)}
    methods: dict[str, dict[str, float]] = {}
    reasons = []
    for method, score_function in scores.items():
        try:
            methods[method] = evaluate(logits, score_function, images, recipe.calibration.target_rate).flat()
        except ProserError as error:
            reasons.append(f"{method}: {error}")
    if reasons:
        outcome.failures[name] = "; ".join(reasons)
    _add(outcome, store, name, folder, methods, "; ".join(reasons))


def _add(
    outcome: Outcome,
    store: Store,
    name: str,
    folder: Path,
    methods: dict[str, dict[str, float]],
    failure: str = "",
) -> None:
    """One more training in results.json, so that a long run can be looked at."""
    entry = {"folder": folder.relative_to(store.root).as_posix(), "failure": failure, "methods": methods}
    outcome.results["trainings"][name] = entry
    write_json(store.root / RESULTS, outcome.results)
