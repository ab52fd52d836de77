"""Networks of a method's own, trained in this process on a few digits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from small_tasks import digits_config
from torch import nn

from proser_core.config import Recipe
from proser_core.data.preparation import make_task
from proser_core.data.tasks import OpenSetTask
from proser_core.generative.own_network import OwnNetwork, OwnTraining, Trained
from proser_core.jobs.own_networks.worker import train_own
from proser_core.learning.step import Arithmetic

CPU = torch.device("cpu")
DIGITS = digits_config(num_known=2, unknown_settings=(3,), flip=False)


@dataclass(frozen=True)
class OwnResult:
    """A network after its training, in evaluation mode and without gradients, and what that says of it."""

    net: Any
    trained: Trained


def nothing(*_: Any) -> Any:
    """What a training reports to where nobody asks."""


@cache
def digits(num_known: int = 2, image_size: int = 8) -> OpenSetTask:
    """Some digits are known, two others are for development, three unknown."""
    return make_task(replace(DIGITS, num_known=num_known, image_size=image_size))


def train_on_digits(
    network: OwnNetwork[Any],
    parts: Mapping[str, nn.Module] | None = None,
    *,
    task: OpenSetTask | None = None,
    **schedule: Any,
) -> OwnResult:
    """Train by the quick schedule with these fields."""
    fields, recipe = replace(network.schedules["quick"], **schedule), Recipe(data=DIGITS)
    given = {"bf16": False, "parts": parts or {}, "report": nothing}
    net, trained = train_own(network, fields, task or digits(), recipe, **given)
    return OwnResult(net.eval().requires_grad_(False), trained)


def plain_training(schedule: Any, task: OpenSetTask | None = None) -> OwnTraining[Any]:
    """What a training on the CPU is handed that reports to nobody and scores nothing."""
    return OwnTraining(task or digits(), DIGITS, schedule, 0, Arithmetic(CPU, False), {}, nothing, nothing)
