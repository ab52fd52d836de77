"""What an epoch of a network of a method's own costs on this machine, measured on random images."""

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from proser_core.config import Recipe, from_json
from proser_core.config.own_networks import ScheduleName
from proser_core.errors import TrainingError
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import TaskShape
from proser_core.jobs.own_networks.worker import train_own
from proser_core.jobs.random_task import random_task
from proser_core.learning.fit import Metrics, State
from proser_core.learning.training import training_device
from proser_core.processor import keep_freed_memory, resolve_precision

STEPS, EPOCHS = 2, 2


@dataclass(frozen=True)
class NetworkCost:
    """Seconds that an epoch takes for each image that it passes over, None where untrained parts let nothing be
    measured; bytes of the weights."""

    seconds_per_image: float | None
    weight_bytes: int


class _MeasuredError(Exception):
    """Enough epochs were timed; what follows them is not."""


def measure_network(name: str, schedule: ScheduleName, recipe_fields: dict[str, Any]) -> NetworkCost:
    """Train a network, on parts that are untrained, for a few steps in this process. The first epoch warms up; the last
    one counts. What a training does before and after its epochs is not in it."""
    recipe: Recipe = from_json(Recipe, recipe_fields)
    torch.set_num_threads(recipe.cluster.cpus_per_worker)
    keep_freed_memory()
    network, device = OWN_NETWORKS[name], training_device(recipe)
    short = network.probe(replace(network.schedules[schedule], epochs=EPOCHS))
    shape, few = TaskShape(recipe.data.num_known, recipe.data.image_size), 2 * recipe.data.num_known
    counts = {"train": max(STEPS * short.batch_size, few), "val": few, "development": 0, "test": few}
    task = random_task(recipe, counts, shape.image_size)
    parts = {
        each: OWN_NETWORKS[each].fresh(shape, OWN_NETWORKS[each].schedules[schedule], 0).to(device).eval()
        for each in network.needs
    }
    ends: list[float] = []

    def end_of_epoch(epoch: int, metrics: Metrics, state: State) -> None:
        ends.append(time.perf_counter())
        if len(ends) == EPOCHS:
            raise _MeasuredError

    with suppress(_MeasuredError, TrainingError):
        train_own(network, short, task, recipe, bf16=resolve_precision(recipe), parts=parts, report=end_of_epoch)
    net = network.fresh(shape, short, 0)
    weights = sum(value.numel() * value.element_size() for value in net.state_dict().values())
    passed = short.epoch_images(len(task.train), task.num_known)
    return NetworkCost((ends[-1] - ends[-2]) / passed if len(ends) == EPOCHS else None, weights)
