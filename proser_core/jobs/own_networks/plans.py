"""Trainings of networks of a method's own: their keys, their order, and what stands in their way.

A network that others need is trained before them. A key holds what the parts were made from, not their weights, so that
all folders are known before anything is trained.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from proser_core.config import Recipe, digest_of, to_json
from proser_core.config.own_networks import ScheduleName
from proser_core.errors import ConfigError
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import OwnNetwork, TaskShape
from proser_core.jobs.own_networks.spec import OWN, OwnJob
from proser_core.jobs.spec import WEIGHTS, Job, augmentation, read_failure
from proser_core.processor import resolve_precision
from proser_core.store.code_version import code_version
from proser_core.store.store import Artefact, Store, load_if_complete

METHODS_FOLDER = "methods"  # of a storage
WORKER = "proser_core.jobs.own_networks.worker"
"""The module whose code version stands, beside the network's own, in every key."""


@dataclass(frozen=True)
class OwnPlan:
    """A network's training on a task: its recipe, key, the folder of its outcome, and the plans that it needs."""

    network: OwnNetwork[Any]
    schedule: ScheduleName
    recipe: Recipe
    task: Artefact
    inputs: dict[str, Any]
    folder: Path
    parts: tuple["OwnPlan", ...]

    @property
    def epochs(self) -> int:
        """Epochs that it reports."""
        return self.network.schedules[self.schedule].epochs

    @property
    def with_parts(self) -> list["OwnPlan"]:
        """This one after all that it stands on, each once."""
        found = {plan.folder: plan for part in self.parts for plan in part.with_parts}
        return [*found.values(), self]

    def job(self) -> OwnJob:
        """What a worker is to do."""
        job = Job.of(OWN, self.recipe, self.task, self.folder, self.inputs["bf16"], inputs=self.inputs)
        parts = {part.network.name: str(part.folder / WEIGHTS) for part in self.parts}
        return OwnJob(**vars(job), network=self.network.name, schedule=self.schedule, parts=parts)

    def outcome(self) -> Artefact | None:
        """The finished training, or None."""
        return load_if_complete(self.folder)

    def failure(self) -> str:
        """Why there is no outcome: its own reason, or that of a part; an empty string where none was recorded."""
        return read_failure(self.folder) or self.failure_of_part()

    def failure_of_part(self) -> str:
        """The first part that is not there, with its reason; an empty string where all are."""
        missing = next((part for part in self.parts if part.outcome() is None), None)
        return f"{missing.network.name}, which it needs, failed: {missing.failure()}" if missing else ""


def plan_network(
    network: OwnNetwork[Any],
    schedule: ScheduleName,
    recipe: Recipe,
    task: Artefact,
    store: Store,
    codes: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> OwnPlan:
    """The training of a network, with all that it needs. `codes` are code versions by network, of those where they are
    not this Python's own."""
    parts = tuple(plan_network(OWN_NETWORKS[name], schedule, recipe, task, store, codes) for name in network.needs)
    inputs = {
        "network": network.name,
        "schedule": to_json(network.schedules[schedule]),
        "task": task.digest,
        "parts": {part.network.name: digest_of(part.inputs) for part in parts},
        "augmentation": augmentation(recipe, task),
        "seed": recipe.seed,
        "bf16": resolve_precision(recipe),
        "gpu": recipe.cluster.uses_gpu,
        "threads": recipe.cluster.cpus_per_worker,
        "code": list(codes.get(network.name) or network_code(network)),
    }
    return OwnPlan(network, schedule, recipe, task, inputs, store.folder(METHODS_FOLDER, inputs), parts)


def network_code(network: OwnNetwork[Any]) -> list[str]:
    """Code versions in the key of a network's training."""
    return [code_version(module) for module in network_modules(network)]


def network_modules(network: OwnNetwork[Any]) -> tuple[str, str]:
    """What trains a network: the worker, and the module of its own."""
    train = network.train.func if isinstance(network.train, partial) else network.train
    return WORKER, train.__module__


def in_order(plans: Iterable[OwnPlan]) -> list[OwnPlan]:
    """The plans and all that they stand on, each once, a part before what needs it."""
    found = {each.folder: each for plan in plans for each in plan.with_parts}
    return list(found.values())


def waves(plans: Sequence[OwnPlan]) -> list[list[OwnPlan]]:
    """Plans that can be trained side by side, wave after wave: each needs nothing of its own wave or a later one."""
    left, found = list(plans), list[list[OwnPlan]]()
    while left:
        waiting = {plan.folder for plan in left}
        found.append([plan for plan in left if not any(part.folder in waiting for part in plan.parts)])
        left = [plan for plan in left if plan not in found[-1]]
    return found


def with_needs(network: OwnNetwork[Any]) -> list[OwnNetwork[Any]]:
    """The network after all that it needs, each once."""
    needed = (each for name in network.needs for each in with_needs(OWN_NETWORKS[name]))
    return [*dict.fromkeys(needed), network]


def check_servable(network: OwnNetwork[Any], recipe: Recipe) -> None:
    """Raises ConfigError, before any work, for a task that a network cannot serve."""
    for each in with_needs(network):
        reason = each.refusal(TaskShape(recipe.data.num_known, recipe.data.image_size))
        if reason:
            raise ConfigError(f"{network.name} cannot be trained on {recipe.data.name}: {reason}")
    if recipe.data.streaming:
        raise ConfigError(
            f"{network.name} reads images from memory, and data.streaming is on; give "
            "--data.no-streaming, or omit its methods"
        )
