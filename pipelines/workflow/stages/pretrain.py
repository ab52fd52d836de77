"""Stage pretrain: the closed-set networks, trained by DDP workers or brought by the user."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipelines.cluster.attempts import unreported_exit
from pipelines.workflow.session import TrainingSession
from pipelines.workflow.stages.images import embed
from pipelines.workflow.stages.waiting import Epochs, show_progress
from proser_core.config import Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import TrainingError
from proser_core.jobs import spec
from proser_core.jobs.trials import Pretraining, plan_pretraining
from proser_core.recognition.logit_tables import load_logits
from proser_core.store.store import Artefact, load_if_complete


def pretrain(
    recipes: Sequence[Recipe], tasks: Sequence[Artefact], pretrained_file: Path | None, session: TrainingSession
) -> list[Artefact]:
    """Weights and logits of each class split: found, or trained now, side by side where the cluster has room. Raises
    TrainingError where one fails, after the others have ended."""
    plans = [
        plan_pretraining(recipe, task, session.store.root, own=pretrained_file)
        for recipe, task in zip(recipes, tasks, strict=True)
    ]
    session.store.sync([plan.folder for plan in plans])
    missing = [plan for plan in plans if load_if_complete(plan.folder) is None]
    curves = {plan.folder: f"/split_{plan.recipe.data.split_index}" if len(plans) > 1 else "" for plan in plans}
    if missing and session.trains:
        embed("pretrain", [(plan.recipe, plan.task) for plan in missing], session)
        with session.store.stage(spec.PRETRAIN):
            _train(missing, curves, session)
    for plan in plans:
        session.tracking.track(session.run.curve, spec.PRETRAIN + curves[plan.folder], spec.read_epochs(plan.folder))
    return [found_pretraining(plan) for plan in plans]


def _train(plans: Sequence[Pretraining], curves: Mapping[Path, str], session: TrainingSession) -> None:
    """Train side by side; `curves` says where the metrics of each stand in the MLflow run, found ones included."""
    workers = 1 if plans[0].own else plans[0].recipe.cluster.pretrain_workers

    def accuracy(running: Sequence[Pretraining], epochs: Epochs) -> str:
        last = [rows[-1]["train/accuracy"] for rows in epochs.values() if rows]
        return f"training accuracy {sum(last) / len(last):.3f}" if last else ""

    def track(epochs: Epochs) -> None:
        for folder, rows in epochs.items():
            session.run.curve(spec.PRETRAIN + curves[folder], rows)

    with show_progress(session, spec.PRETRAIN, plans, workers, lambda plan: _split(plan, curves), accuracy, track):
        cluster = session.cluster
        if not plans[0].recipe.network.is_frozen("pretrain"):  # else heads are trained here, without Ray
            # by all class splits, found ones too: so the same command has as many threads when it goes on
            cluster = cluster.with_idle_cores(len(curves), workers)
        ready = [replace(plan, recipe=replace(plan.recipe, cluster=cluster.config)) for plan in plans]
        titles = {plan.folder.name: f"the pretraining of class split {plan.recipe.data.split_index}" for plan in plans}
        cluster.run_jobs([plan.job() for plan in ready], workers, spec.PRETRAIN, titles=titles)
    for plan in plans:
        _say_accuracy(session, plan, _split(plan, curves))


def found_pretraining(plan: Pretraining) -> Artefact:
    """The weights and logits of a training that has ended. Raises TrainingError where it failed."""
    artefact = load_if_complete(plan.folder)
    if artefact is None:
        reason = spec.read_failure(plan.folder) or unreported_exit()
        raise TrainingError(f"pretraining of class split {plan.recipe.data.split_index} failed: {reason}")
    return artefact


def _split(plan: Pretraining, curves: Mapping[Path, str]) -> str:
    """What a line begins with where there are several class splits."""
    return f"class split {plan.recipe.data.split_index}: " if curves[plan.folder] else ""


def _say_accuracy(session: TrainingSession, plan: Pretraining, split: str) -> None:
    task, folder = OpenSetTask.load(plan.task.path), found_pretraining(plan).path
    predictions = load_logits(folder / spec.LOGITS)["val"].known_predictions()
    correct = int((predictions == task.val.targets).sum())
    session.say(f"  {split}closed-set accuracy on validation images: {100 * correct / len(predictions):.1f} %")
    if is_near_chance(correct, len(predictions), task.num_known):
        mean, std = (", ".join(f"{value:.3f}" for value in values) for values in (task.mean, task.std))
        remedy = (
            "The checkpoint must have its classes in the order of class_split.json, and have been trained with mean "
            f"{mean} and standard deviation {std}"
            if plan.own
            else "MSP, MaxLogit and OpenMax of it say little; PROSER is trained on its own, for --finetune.epochs"
            if plan.recipe.finetune.start == "scratch"
            else "What follows says little; give more --pretrain.epochs, or more images"
        )
        session.say(f"  that is near chance. {remedy}")


def is_near_chance(correct: int, count: int, num_classes: int) -> bool:
    """Whether guessing would name as many of so many images, within two standard errors."""
    chance = 1 / num_classes
    return correct < count * chance + 2 * math.sqrt(count * chance * (1 - chance))
