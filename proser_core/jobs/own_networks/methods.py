"""Methods with networks of their own, as a command or a JOB.json asks for them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from proser_core.baselines import METHODS
from proser_core.config import Recipe
from proser_core.config.own_networks import ScheduleName
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import OwnNetwork
from proser_core.jobs.own_networks.plans import OwnPlan, in_order, plan_network
from proser_core.store.store import Artefact, Store


class OwnMethods(NamedTuple):
    """Methods with networks of their own, and the schedule of these."""

    names: tuple[str, ...] = ()
    schedule: ScheduleName = "quick"

    @property
    def networks(self) -> list[OwnNetwork[Any]]:
        """What the methods score, each network once; not what these need."""
        return [OWN_NETWORKS[name] for name in dict.fromkeys(METHODS[name].network for name in self.names)]


NO_METHODS = OwnMethods()


def plan_methods(
    methods: OwnMethods,
    recipe: Recipe,
    task: Artefact,
    store: Store,
    codes: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> list[OwnPlan]:
    """The trainings of the networks of these methods, a part before what needs it; `codes` as of `plan_network`."""
    schedule = methods.schedule
    return in_order(plan_network(each, schedule, recipe, task, store, codes) for each in methods.networks)
