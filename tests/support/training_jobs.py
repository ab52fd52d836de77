"""Trainings of small recipes on the embedded digits, as jobs, and what stops them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from small_tasks import digits_config

from proser_core.config import ClusterConfig, FinetuneConfig, PretrainConfig, Recipe, to_json
from proser_core.jobs.spec import Job
from proser_core.store.store import Artefact


def tiny_recipe(epochs: int = 2) -> Recipe:
    """Digits at 8 pixels, few epochs, one worker, fp32; written out, since tests of the core import no recipe."""
    return Recipe(
        name="digits",
        precision="fp32",
        data=digits_config(unknown_settings=(1, 2, 3), val_fraction=0.2, flip=False),
        pretrain=PretrainConfig(epochs=epochs, batch_size=32, lr=0.05),
        finetune=FinetuneConfig(epochs=epochs, batch_size=32, lr=0.001),
        cluster=ClusterConfig(pretrain_workers=1),
    )


def lively_recipe(**finetune: Any) -> Recipe:
    """With three epochs, dropout and a learning rate that moves: what a training that goes on must not lose."""
    recipe = tiny_recipe(epochs=3)
    return replace(
        recipe,
        network=replace(recipe.network, dropout=0.2),
        finetune=replace(recipe.finetune, **{"schedule": "cosine", **finetune}),
    )


class StoppedError(Exception):
    """Stands for a machine that went away."""


def stop_after(epochs: int) -> Callable[[object], None]:
    """What a training reports its epochs to, and is stopped by after so many."""
    seen = []

    def notify(metrics: object) -> None:
        seen.append(metrics)
        if len(seen) == epochs:
            raise StoppedError

    return notify


def ignore(metrics: object) -> None:
    """What a training reports its epochs to where nobody asks."""


def training_job(
    task: Artefact, folder: Path, recipe: Recipe | None = None, kind: str = "finetune", weights: object = ""
) -> Job:
    """A training of the tiny recipe or another one."""
    return Job(kind, to_json(recipe or tiny_recipe()), str(task.path), str(folder), str(weights))
