"""Checks of a recipe against its images and this machine."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from proser_core.config import DataConfig, FinetuneConfig, Recipe
from proser_core.data.augmentation.batches import check_batch
from proser_core.data.data_sets import DataRoot, path_of
from proser_core.data.preparation import open_data_sets
from proser_core.data.tasks import TaskSummary
from proser_core.errors import ConfigError
from proser_core.jobs.preparing import data_fields

MAX_THREADS = 1_024  # beyond which a number is a mistake


def missing_images(recipe: Recipe, data_dir: DataRoot) -> str:
    """`DataSet.missing` of the first data set of the task that is missing, or an empty string. Outlier sets are not
    looked for."""
    return next(filter(None, (data.missing for data in open_data_sets(recipe.data, data_dir).values())), "")


def refuse_among_images(data: DataConfig, data_dir: DataRoot, written: Mapping[str, Path | None]) -> None:
    """Raises ConfigError for output, by the name of its option, that would lie among a user's own images: they could
    not be read again."""
    root = path_of(data_dir)
    if not data.is_own or root is None:
        return
    for name, place in written.items():
        if place is not None and place.resolve().is_relative_to(root.resolve()):
            raise ConfigError(
                f"{name} writes to {place}, which is in the data directory {root}: its folders and figures would be "
                f"taken for classes and images. Run the command from another folder, or set {name} elsewhere"
            )


def refuse_streaming(recipe: Recipe) -> None:
    """Raises ConfigError for a recipe whose images only workers on Ray can read."""
    if recipe.data.streaming:
        raise ConfigError(
            "data.streaming is on, and without Ray nothing decodes images while a network trains; "
            "train with `proser run`, or give --data.no-streaming"
        )


def check_machine(recipe: Recipe) -> None:
    """Raises ConfigError for what one process on this machine cannot do."""
    refuse_streaming(recipe)
    if torch.get_default_dtype() != torch.float32:
        raise ConfigError(
            f"torch's default dtype is {torch.get_default_dtype()}, and networks are made in it; need float32: call "
            "torch.set_default_dtype(torch.float32) first"
        )
    for name in ("num_workers", "pretrain_workers"):
        workers = getattr(recipe.cluster, name)
        if workers != 1:
            raise ConfigError(
                f"cluster.{name} is {workers}; one process trains all, so that it must be 1 (as `proser job` writes it)"
            )
    if recipe.cluster.cpus_per_worker > MAX_THREADS:
        raise ConfigError(
            f"cluster.cpus_per_worker is {recipe.cluster.cpus_per_worker}, the threads of this process; need at most "
            f"{MAX_THREADS:,}"
        )
    if recipe.cluster.uses_gpu and not torch.cuda.is_available():
        raise ConfigError(
            f"cluster.gpus_per_worker is {recipe.cluster.gpus_per_worker:g}; torch sees no GPU here. "
            "Set it to 0 to train on the CPU"
        )


def check_prepared_for(recipe: Recipe, inputs: dict[str, Any], code: str, where: Path) -> None:
    """Raises ConfigError where a task with these `inputs` was prepared by other code than `code`, or for another
    recipe."""
    if inputs.get("code") != code:
        raise ConfigError(
            f"{where} was prepared by other code than JOB.json says; write both again with `proser job --with-task`"
        )
    recorded = {**inputs["data"], "seed": inputs["seed"]}
    for name, value in {**data_fields(recipe), "seed": recipe.seed}.items():
        if recorded.get(name) != value:
            field = name if name == "seed" else f"data.{name}"
            raise ConfigError(
                f"{where} was prepared with {field} {recorded.get(name)!r}, and the recipe has {value!r}; "
                "give the task of this recipe, or change the recipe"
            )


def check_batches(recipe: Recipe, finetunes: Iterable[FinetuneConfig], task: Path) -> None:
    """Raises ConfigError where the training images do not fill one batch, of the pretraining or of any fine-tune."""
    images = TaskSummary.read(task).counts["train"]
    check_batch("pretrain", recipe.pretrain.batch_size, images)
    for tuned in finetunes:
        check_batch("finetune", tuned.batch_size, images)
