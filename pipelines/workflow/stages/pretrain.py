"""Stage pretrain: the closed-set networks, trained by DDP workers or brought by the user."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.cluster.attempts import unreported_exit
from pipelines.progress import ProgressBar, poll_in_background
from pipelines.storage.mirror import has_file, poll_storage, sync
from pipelines.workflow.session import TrainingSession
from pipelines.workflow.stages.embed import embed
from pipelines.workflow.stages.finetune import STARTING, Shortage, first_epoch
from proser_core.config import Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.digests import sha256_of
from proser_core.errors import TrainingError
from proser_core.jobs import spec
from proser_core.jobs.trials import WORKER
from proser_core.networks.nets import make_closed_set_net
from proser_core.networks.weights import load_weights
from proser_core.recognition.logits import load_logits
from proser_core.store.code_version import code_version
from proser_core.store.store import Artefact, Store, load_if_complete


@dataclass(frozen=True)
class Pretraining:
    """The closed-set training of one class split; `own` is a user's checkpoint or an empty string."""

    recipe: Recipe
    task: Artefact
    inputs: dict[str, Any]
    folder: Path
    own: str


def check_weights(recipe: Recipe, path: Path) -> None:
    """Raises CheckpointError, before any worker starts, for weights that do not fit the network."""
    net = make_closed_set_net(recipe.network, recipe.data.num_known, recipe.data.image_size, recipe.seed)
    load_weights(net, path)


def plan_pretraining(recipe: Recipe, task: Artefact, store: Store, bf16: bool, own: Path | None = None) -> Pretraining:
    """The pretraining on a task, with its key and the folder of its outcome; `own` is a user's checkpoint."""
    digest = sha256_of(own) if own else ""
    inputs = spec.job_inputs("pretrain", recipe, task, digest, bf16, code_version(WORKER))
    folder = store.folder(spec.PRETRAIN, inputs)
    return Pretraining(recipe, task, inputs, folder, str(own.resolve()) if own else "")


def pretrain(
    recipes: Sequence[Recipe],
    tasks: Sequence[Artefact],
    bf16: bool,
    pretrained_file: Path | None,
    session: TrainingSession,
) -> list[Artefact]:
    """Weights and logits of each class split: found, or trained now, side by side where the cluster has room. Raises
    TrainingError where one fails, after the others have ended."""
    plans = [
        plan_pretraining(recipe, task, session.store, bf16, pretrained_file)
        for recipe, task in zip(recipes, tasks, strict=True)
    ]
    sync(session.store, [plan.folder for plan in plans])
    missing = [plan for plan in plans if load_if_complete(plan.folder) is None]
    curves = {plan.folder: f"/split_{plan.recipe.data.split_index}" if len(plans) > 1 else "" for plan in plans}
    if missing and session.trains:
        embed("pretrain", [(plan.recipe, plan.task) for plan in missing], session)
        with session.store.stage(spec.PRETRAIN):
            _train(missing, curves, bf16, session)
    for plan in plans:
        curve = spec.PRETRAIN + curves[plan.folder]
        session.tracking.track(lambda plan=plan, curve=curve: session.run.curve(curve, spec.read_epochs(plan.folder)))  # type: ignore[misc]
    return [found_pretraining(plan) for plan in plans]


def _train(plans: Sequence[Pretraining], curves: Mapping[Path, str], bf16: bool, session: TrainingSession) -> None:
    """Train side by side; `curves` says where the metrics of each stand in the MLflow run, found ones included."""
    folders = [plan.folder for plan in plans]
    poll_storage(session.store, folders)
    for plan in plans:
        if has_file(session.store, plan.folder / spec.STATE):
            done = f"epoch {len(spec.read_epochs(plan.folder))} of {plan.recipe.pretrain.epochs}"
            session.say(f"  {_split(plan, curves)}resuming after {done}")
    total = sum(plan.recipe.pretrain.epochs for plan in plans)
    workers = 1 if plans[0].own else plans[0].recipe.cluster.pretrain_workers
    progress = ProgressBar(session.console, spec.PRETRAIN, total, "epochs", session.cluster.starting or STARTING)
    shortage = Shortage(session, workers)

    def poll() -> None:
        poll_storage(session.store, folders)
        shortage.poll()
        epochs = [spec.read_epochs(plan.folder) for plan in plans]
        accuracies = [rows[-1]["train/accuracy"] for rows in epochs if rows]
        mean = sum(accuracies) / max(len(accuracies), 1)
        running = sum(plan.folder.is_dir() for plan in plans)
        note = f"training accuracy {mean:.3f}" if accuracies else ""
        progress.update(sum(map(len, epochs)), note, first_epoch(session, running), running or 1)
        for plan, rows in zip(plans, epochs, strict=True):
            session.run.curve(spec.PRETRAIN + curves[plan.folder], rows)

    with closing(progress), poll_in_background(poll, session.tracking.warn):
        cluster = session.cluster
        if not plans[0].recipe.network.is_frozen("pretrain"):  # else heads are trained here, without Ray
            # by all class splits, found ones too: so the same command has as many threads when it goes on
            cluster = cluster.with_idle_cores(len(curves), workers)
        recipes = [replace(plan.recipe, cluster=cluster.config) for plan in plans]
        jobs = [
            spec.Job.of("pretrain", recipe, plan.task, plan.folder, bf16, plan.own, plan.inputs)
            for recipe, plan in zip(recipes, plans, strict=True)
        ]
        cluster.run_jobs(jobs, workers, spec.PRETRAIN)
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
    accuracy = float((predictions == task.val.targets).mean())
    session.say(f"  {split}closed-set accuracy on validation images: {100 * accuracy:.1f} %")
    if accuracy < 2 / task.num_known:
        mean, std = (", ".join(f"{value:.3f}" for value in values) for values in (task.mean, task.std))
        remedy = (
            "The checkpoint must have its classes in the order of class_split.json, and have been trained with mean "
            f"{mean} and standard deviation {std}"
            if plan.own
            else "What follows says little; give more --pretrain.epochs, or more images"
        )
        session.say(f"  that is near chance. {remedy}")
