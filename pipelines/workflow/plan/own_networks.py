"""The part of a plan that is of networks of methods' own: which are missing, and what they cost."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.cluster.cluster import Cluster
from pipelines.storage.storage import Storage, find_artefact
from pipelines.workflow.plan.trainings import SplitPlan, side_by_side
from pipelines.workflow.training import TrainingInputs
from proser_core.config import Recipe, to_json
from proser_core.config.own_networks import ScheduleName
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.jobs.own_networks.methods import OwnMethods, plan_methods
from proser_core.jobs.own_networks.plans import with_needs
from proser_core.jobs.own_networks.probe import NetworkCost, measure_network
from proser_core.jobs.preparing import prepare_key
from proser_core.jobs.spec import PREPARE
from proser_core.titles import duration


@dataclass(frozen=True)
class MissingNetwork:
    """A network of a method's own that is to be trained on a class split: images of an epoch, and images to score; its
    `wave` is 0, or one more than that of any that it needs and that is missing too."""

    name: str
    epochs: int
    images: int
    scored: int
    num_known: int
    wave: int


NetworkCosts = dict[str, NetworkCost]
"""By network, of those that are missing."""


def missing_networks(
    methods: OwnMethods, inputs: TrainingInputs, plans: Sequence[SplitPlan], store: Storage
) -> list[MissingNetwork]:
    """What is to be trained of the methods' networks, and of those that they need, on every class split."""
    found = []
    for split, recipe, data in zip(plans, inputs.recipes, inputs.data_inputs, strict=True):
        names = _unfinished(methods, recipe, data, store)
        for name in names:
            how, known = OWN_NETWORKS[name].schedules[methods.schedule], recipe.data.num_known
            images = how.epoch_images(split.images["train"], known)
            found.append(MissingNetwork(name, how.epochs, images, split.scored_pretrained, known, _wave(name, names)))
    return found


def _unfinished(methods: OwnMethods, recipe: Recipe, data: dict[str, Any], store: Storage) -> list[str]:
    task = find_artefact(store, store.folder(PREPARE, prepare_key(data)))
    if task is None:
        return list(dict.fromkeys(each.name for network in methods.networks for each in with_needs(network)))
    plans = plan_methods(methods, recipe, task, store)
    store.sync([plan.folder for plan in plans])
    return [plan.network.name for plan in plans if plan.outcome() is None]


def _wave(name: str, missing: Collection[str]) -> int:
    return max((1 + _wave(need, missing) for need in OWN_NETWORKS[name].needs if need in missing), default=0)


@dataclass(frozen=True)
class OwnNetworksPlan:
    """The part of a study's plan: what is missing, what it costs, and how many are trained at a time."""

    missing: Sequence[MissingNetwork]
    costs: NetworkCosts
    at_once: int

    @property
    def seconds(self) -> float:
        """Time of the epochs of all that is missing; what trainings do before and after their epochs is not in it."""
        rates = {name: cost.seconds_per_image or 0.0 for name, cost in self.costs.items()}
        waves = defaultdict[int, list[float]](list)
        for each in self.missing:
            waves[each.wave].append(each.epochs * each.images * rates[each.name])
        return sum(side_by_side(wave, self.at_once) for wave in waves.values())

    @property
    def disk(self) -> int:
        """Bytes of weights, of checkpoints with two moments of each weight, and of logits."""
        return sum(4 * self.costs[each.name].weight_bytes + 8 * each.num_known * each.scored for each in self.missing)

    def lines(self) -> dict[str, str]:
        """Rows of the plan; none where nothing is missing."""
        if not self.missing:
            return {}
        names = [each.name for each in self.missing]
        epochs = {each.name: each.epochs for each in self.missing}
        parts = [
            f"{name}, {names.count(name)} to train, {epochs[name]} epochs at {_rate(cost)}"
            for name, cost in self.costs.items()
        ]
        time = f"about {duration(self.seconds)} of epochs, measured now"
        return {"own networks": "; ".join(parts), "their time": time}


def measure_networks(
    missing: Sequence[MissingNetwork], schedule: ScheduleName, recipe: Recipe, cluster: Cluster
) -> OwnNetworksPlan:
    """Take a few steps of each network that is missing on a worker of the cluster. Raises ClusterError where one does
    not fit there."""
    fields = to_json(recipe)
    costs: NetworkCosts = {}
    for name in dict.fromkeys(each.name for each in missing):
        (costs[name],) = cluster.call_on_workers(measure_network, (name, schedule, fields), copies=1)
    # the cluster is not asked where nothing is missing: that would start Ray
    return OwnNetworksPlan(missing, costs, min(cluster.concurrent_jobs(1), len(missing)) if missing else 1)


def _rate(cost: NetworkCost) -> str:
    return (
        "a time not measured" if cost.seconds_per_image is None else f"{1000 * cost.seconds_per_image:.3g} ms per image"
    )
