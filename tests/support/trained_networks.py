"""Networks of methods' own, trained in this process after those that they need, by schedules of the tests."""

from collections.abc import Mapping

from torch import nn

from proser_core.config import DataConfig, Recipe
from proser_core.data.preparation import make_task
from proser_core.data.tasks import OpenSetTask
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import Schedule, Trained
from proser_core.jobs import own_worker
from proser_core.learning.fit import Report

DIGITS = DataConfig(
    name="digits",
    image_size=16,
    num_known=5,
    unknown_settings=(),
    development="held-out-2",
    val_fraction=0.2,
    flip=False,
    padding=1,
)


def digits_task(**values) -> OpenSetTask:
    """Digits of 16 pixels, but for what `values` say."""
    return make_task(DataConfig(**(vars(DIGITS) | values)))


def train_own(
    name: str,
    task: OpenSetTask,
    schedules: Mapping[str, Schedule],
    *,
    parts: Mapping[str, nn.Module] | None = None,
    report: Report = lambda epoch, metrics, state: None,
    seed: int = 0,
) -> tuple[nn.Module, Trained]:
    """A network after its training on the CPU, and what that left; what it needs is trained before, unless given."""
    network, recipe = OWN_NETWORKS[name], Recipe(data=DIGITS, seed=seed)
    if parts is None:
        trained = {each: train_own(each, task, schedules, seed=seed)[0] for each in network.needs}
        parts = {each: net.eval().requires_grad_(False) for each, net in trained.items()}
    return own_worker.train_own(network, schedules[name], task, recipe, bf16=False, parts=parts, report=report)
