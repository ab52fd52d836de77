"""A task whose classes differ by their brightness, and a recipe that freezes a small backbone of timm for it."""

from pathlib import Path

import numpy as np
import timm
import torch
from small_tasks import NORMALISATION, random_images

from proser_core.config import DataConfig, FinetuneConfig, NetworkConfig, PretrainConfig, Recipe
from proser_core.data.arrays import task_from_arrays
from proser_core.data.tasks import OpenSetTask
from proser_core.jobs import spec
from proser_core.store.store import Artefact, Store

SIZE = 32


def as_artefact(task: OpenSetTask, folder: Path) -> Artefact:
    task.save(folder)
    return Artefact(folder, folder.name)


def bright_task(count: int = 48, classes: int = 3) -> OpenSetTask:
    targets = np.arange(count) % classes
    pixels = random_images(count, SIZE) // 3 + (targets * 80).astype(np.uint8)[:, None, None, None]
    return task_from_arrays(pixels, targets)


def weights_of_timm(folder: Path) -> Path:
    """Weights of timm's test_efficientnet, with running statistics that have moved."""
    torch.manual_seed(3)
    net = timm.create_model("test_efficientnet")
    net.train()(torch.randn(8, 3, SIZE, SIZE))
    torch.save(net.state_dict(), folder / "net.pth")
    return folder / "net.pth"


def frozen_recipe(folder: Path) -> Recipe:
    weights = str(weights_of_timm(folder))
    return Recipe(
        data=DataConfig(image_size=SIZE, num_known=3, normalisation=(*NORMALISATION[0], *NORMALISATION[1])),
        network=NetworkConfig(backbone="timm:test_efficientnet", weights_file=weights, features="frozen"),
        pretrain=PretrainConfig(epochs=6, batch_size=12, lr=0.1),
        finetune=FinetuneConfig(epochs=3, batch_size=12, lr=0.01, num_dummies=2),
    )


def job_of(recipe: Recipe, kind: str, task: Artefact, store: Store, weights: str = "") -> spec.Job:
    inputs = spec.job_inputs(kind, recipe, task, weights, False, "code")
    return spec.Job.of(kind, recipe, task, store.folder(kind, inputs), False, weights, inputs)
