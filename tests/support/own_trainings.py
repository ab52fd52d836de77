"""Networks of methods' own, trained in this process after those that they need, by schedules of the tests."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from small_tasks import CPU
from torch import nn

from proser_core.config import DataConfig
from proser_core.data.preparation import make_task
from proser_core.data.tasks import OpenSetTask
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import OwnTraining, Schedule, TaskShape, Trained
from proser_core.learning.fit import State
from proser_core.learning.step import Arithmetic
from proser_core.recognition.logits import compute_logits

DIGITS = DataConfig(
    name="digits", image_size=16, num_known=5, unknown_settings=(), development="held-out-2", flip=False, padding=1
)


def digits_task(**values) -> OpenSetTask:
    """Digits of 16 pixels, of which a fifth is for validation."""
    return make_task(DataConfig(**(vars(DIGITS) | {"val_fraction": 0.2} | values)))


def train_own(
    name: str,
    task: OpenSetTask,
    schedules: Mapping[str, Schedule],
    *,
    parts: Mapping[str, nn.Module] | None = None,
    report: Callable[[int, dict, State], None] = lambda epoch, metrics, state: None,
    resume: State | None = None,
    seed: int = 0,
) -> tuple[nn.Module, Trained]:
    """A network after its training on the CPU, and what that left; what it needs is trained before, unless given."""
    network, schedule = OWN_NETWORKS[name], schedules[name]
    if parts is None:
        parts = {each: train_own(each, task, schedules, seed=seed)[0].requires_grad_(False) for each in network.needs}

    def outputs(net: nn.Module, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits = compute_logits(net, images, (task.mean, task.std), CPU)
        return logits.known, logits.dummies

    net = network.fresh(TaskShape(task.num_known, task.image_size), schedule, seed)
    arithmetic = Arithmetic(torch.device("cpu"), bf16=False)
    training = OwnTraining(task, DIGITS, schedule, seed, arithmetic, parts, report, outputs, resume)
    return net, network.train(net, training)
