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
from proser_core.learning.fit import State
from proser_core.learning.step import Arithmetic

CPU = torch.device("cpu")
DIGITS = digits_config(num_known=2, unknown_settings=(3,), flip=False)


class StoppedError(Exception):
    """A training was stopped after the epochs that were asked for; its argument is the state."""


@dataclass(frozen=True)
class OwnResult:
    """A network after its training, in evaluation mode and without gradients, and what that says of it."""

    net: Any
    trained: Trained


@cache
def digits(num_known: int = 2, image_size: int = 8) -> OpenSetTask:
    """Some digits are known, two others are for development, three unknown."""
    return make_task(replace(DIGITS, num_known=num_known, image_size=image_size))


def train_on_digits(
    network: OwnNetwork[Any],
    parts: Mapping[str, nn.Module] | None = None,
    *,
    task: OpenSetTask | None = None,
    stop_after: int | None = None,
    resume: State | None = None,
    **schedule: Any,
) -> OwnResult:
    """Train by the quick schedule with these fields. Raises StoppedError after `stop_after` epochs."""

    def report(epoch: int, values: dict[str, float], state: State) -> None:
        if epoch + 1 == stop_after:
            raise StoppedError(state)

    fields, recipe = replace(network.schedules["quick"], **schedule), Recipe(data=DIGITS)
    given = {"bf16": False, "parts": parts or {}, "report": report, "resume": resume}
    net, trained = train_own(network, fields, task or digits(), recipe, **given)
    return OwnResult(net.eval().requires_grad_(False), trained)


def plain_training(schedule: Any, task: OpenSetTask | None = None) -> OwnTraining[Any]:
    """What a training on the CPU is handed that reports to nobody and scores nothing."""

    def nothing(*_: Any) -> Any:
        return None

    return OwnTraining(task or digits(), DIGITS, schedule, 0, Arithmetic(CPU, False), {}, nothing, nothing)


def assert_restored(fresh: nn.Module, trained: nn.Module) -> None:
    """With the state of a trained network a fresh one answers bit for bit as that does."""
    fresh.load_state_dict(trained.state_dict())
    images = torch.randn(3, 3, 8, 8)
    fresh = fresh.to(memory_format=torch.channels_last).eval()  # as trained weights lie
    with torch.no_grad():
        for ours, theirs in zip(fresh(images), trained(images), strict=True):
            assert torch.equal(ours, theirs)
