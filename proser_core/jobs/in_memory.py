"""From a task to a classifier in this process, without files: the trainings of a job, for those who call them."""

import io
from dataclasses import replace
from typing import get_args

import numpy as np
import torch

from proser_core.baselines import METHODS, Method
from proser_core.baselines.controls import fit_score
from proser_core.config import Recipe
from proser_core.config.own_networks import ScheduleName
from proser_core.data.augmentation.batches import check_batch
from proser_core.data.preparation import channels_of
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, DataError
from proser_core.jobs.embedding import embedded_in_memory
from proser_core.jobs.own_networks.in_memory import train_own_method
from proser_core.jobs.progress import EpochProgress
from proser_core.jobs.task_checks import check_machine
from proser_core.jobs.trials import check_score
from proser_core.learning.fit import Metrics, State
from proser_core.learning.training import train_network, training_device
from proser_core.naming import unknown_name
from proser_core.networks.heads import as_on_backbone, make_heads, on_backbone
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet, make_closed_set_net
from proser_core.networks.pretrained import with_features, with_pretrained
from proser_core.processor import resolve_precision, torch_restored
from proser_core.recognition.embedding_table import task_embeddings
from proser_core.recognition.logits import task_logits
from proser_core.recognition.metrics import check_settings
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.score_choice import Tables
from proser_core.recognition.scored_network import fitting_targets, score_network
from proser_core.recognition.scores import own_score


@torch.inference_mode(False)
@torch.enable_grad()  # whatever the caller has switched off
def train(
    task: OpenSetTask,
    recipe: Recipe,
    method: Method | str | None = None,
    *,
    progress: EpochProgress | None = None,
    own_networks: ScheduleName = "quick",
) -> OpenSetClassifier:
    """Train a classifier as the recipe states, calibrate it on the task's validation images, and evaluate it.

    Trains the recipe's own fine-tune with placeholders, or what `method` (of `METHODS`, or its name there) scores: the
    pretrained network, a control, an ablation, or a network of the method's own by the schedule `own_networks`. A
    method brings its own score, in the place of `calibration.score`. `progress` prints epochs and the time that is
    left. The weights equal those of a job with the same recipe and number of threads, bit for bit. Raises ConfigError
    for a recipe that does not fit the task or this machine, TrainingError where the loss is not finite,
    CalibrationError where the score cannot be fitted or calibrated, CheckpointError for a weights file that does not
    fit, DataError for a class, a test setting or validation without images, and for images unlike those of the
    training.
    """
    if isinstance(method, str):
        method = METHODS[method]
    needed = [("task", task, OpenSetTask), ("recipe", recipe, Recipe)]
    optional = [("method", method, Method), ("progress", progress, EpochProgress)]
    for name, given, kind in needed + [each for each in optional if each[1] is not None]:
        if not isinstance(given, kind):
            raise ConfigError(f"{name} got {type(given).__name__}; need a proser_core.{kind.__name__}")
    if own_networks not in get_args(ScheduleName):
        raise ConfigError(unknown_name("choice for own_networks", str(own_networks), get_args(ScheduleName)))
    check_machine(recipe)
    recipe = with_pretrained(recipe)
    if method is not None:  # it brings its own score, of its own network
        recipe = replace(recipe, calibration=replace(recipe.calibration, score="", network="proser"))
        if method.finetune is not None:
            recipe = replace(recipe, finetune=method.finetune(recipe))
    recipe = with_features(recipe, len(task.train))
    _check_task(task, recipe)
    _check_parts(task)
    if recipe.data.normalisation:
        mean, std = channels_of(recipe.data.normalisation)
        task = replace(task, mean=mean, std=std)
    progress = progress or EpochProgress(io.StringIO())
    if method is None:
        check_score(recipe, can_choose=len(task.development) > 0)
    elif method.network:
        with torch_restored(training_device(recipe)):
            return train_own_method(task, recipe, method, own_networks, progress)
    elif method.score.needs_dummies and recipe.finetune.objective != "proser":
        raise ConfigError(
            f"{method.name} has the score {method.score.name}, which reads dummies, and its network has none; name "
            "another score, or give a finetune with placeholders"
        )
    kinds = _kinds(recipe, method)
    for each in kinds:  # before the first training
        check_batch(each, recipe.training(each)[0].batch_size, len(task.train))
    heads, seen = _trained(task, recipe, kinds, progress)
    net = heads if seen is task else on_backbone(heads, _fresh(task, recipe))
    device, mirror = training_device(recipe), recipe.calibration.mirror
    tables: Tables
    if recipe.calibration.reads_embeddings or (method is not None and method.score.needs_embeddings):
        tables = task_embeddings(net, task, device, seed=recipe.seed, mirror=mirror)
    else:
        scored = net if seen is task else as_on_backbone(heads)
        reads_training = method is not None and method.score.reads_training
        tables = task_logits(scored, seen, device, with_training=reads_training)
    targets = fitting_targets(recipe, task, tables)
    score = own_score(recipe) if method is None else fit_score(method, tables, targets)
    # the recipe does not say where the development images of the caller's task come from
    scored_net = score_network(recipe, score, tables, task, development="development unknowns")
    return scored_net.classifier(net, task, recipe)


def _check_task(task: OpenSetTask, recipe: Recipe) -> None:
    if recipe.calibration.network != "proser":
        raise ConfigError(
            f"calibration.network is {recipe.calibration.network}, and only `proser run` trains both networks; omit "
            "it, or give a method of METHODS"
        )
    if recipe.calibration.development:
        raise ConfigError(
            "calibration.development names data sets, and only `proser run` reads them; give an empty one, and all "
            "development unknowns in the task"
        )
    for name, have in (("num_known", task.num_known), ("image_size", task.image_size)):
        got = getattr(recipe.data, name)
        if got != have:
            raise ConfigError(f"data.{name} of the recipe is {got}, and the task has {have}; set it to {have}")


def _check_parts(task: OpenSetTask) -> None:
    """Raises DataError for a class without training images, and for images that the training does not see, but the
    evaluation does."""
    counts = np.bincount(task.train.targets, minlength=task.num_known)
    if not counts.all():
        raise DataError(f"there is no training image of {task.class_names[counts.argmin()]}; give some, or omit it")
    if len(task.test):
        check_settings(task.test_classes, task.split)
    if not len(task.val):
        raise DataError("the task has no validation images, to which the threshold is fitted; give some of each class")
    like = task.train.images
    for name in ("val", "development", "test"):
        images = getattr(task, name).images
        if not isinstance(images, np.ndarray) or not isinstance(like, np.ndarray):
            continue
        if (images.dtype, images.shape[1:]) != (like.dtype, like.shape[1:]):
            raise DataError(
                f"images of {name} are {images.dtype}{list(images.shape)}; need {like.dtype}"
                f"[N, {', '.join(map(str, like.shape[1:]))}], as the training images"
            )


def _kinds(recipe: Recipe, method: Method | None) -> tuple[str, ...]:
    """Trainings that the network goes through, in order."""
    if method is not None and method.scores_pretrained:
        return ("pretrain",)
    return ("finetune",) if recipe.finetune.start == "scratch" else ("pretrain", "finetune")


def _fresh(task: OpenSetTask, recipe: Recipe) -> ClosedSetNet:
    return make_closed_set_net(recipe.network, task.num_known, task.image_size, recipe.seed)


def _trained(
    task: OpenSetTask, recipe: Recipe, kinds: tuple[str, ...], progress: EpochProgress
) -> tuple[ClosedSetNet | PlaceholderNet, OpenSetTask]:
    """The network after its trainings, and the task as it saw it at last: of a frozen backbone heads and embeddings."""
    recipe = replace(recipe, data=task.augmented(recipe.data))
    bf16, normalisation = resolve_precision(recipe), (task.mean, task.std)
    if recipe.network.is_frozen(kinds[0]):
        seen = embedded_in_memory(task, recipe)
        assert isinstance(seen.train.images, np.ndarray)
        closed_set = make_heads(seen.train.images, task.num_known, recipe.seed)
    else:
        seen, closed_set = task, _fresh(task, recipe)
    net: ClosedSetNet | PlaceholderNet = closed_set

    def report(epoch: int, metrics: Metrics, state: State) -> None:
        progress.epoch(metrics)

    epochs = {kind: recipe.training(kind)[0].epochs for kind in kinds}
    for kind, count in epochs.items():
        progress.expect(kind, count)
    for kind, count in epochs.items():
        if seen is not task and not recipe.network.is_frozen(kind):
            whole = _fresh(task, recipe)
            on_backbone(closed_set, whole)
            whole.backbone.standardised_by = None  # of embeddings that its training changes
            seen, closed_set = task, whole
        progress.begin(kind, kind, count, done=0)
        in_bf16 = bf16 and seen is task
        how = recipe if seen is task else replace(recipe, cluster=replace(recipe.cluster, gpus_per_worker=0.0))
        net = train_network(kind, closed_set, seen.train, normalisation, how, bf16=in_bf16, report=report)
        progress.close()
    return net, seen
