"""Methods with networks of their own, as a command asks for them."""

from typing import Any, NamedTuple

from proser_core.baselines import METHODS
from proser_core.config import Recipe
from proser_core.config.own_networks import ScheduleName
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import OwnNetwork
from proser_core.jobs.own_plans import OwnPlan, in_order, plan_own
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


def plan_methods(own: OwnMethods, recipe: Recipe, task: Artefact, store: Store, bf16: bool) -> list[OwnPlan]:
    """The trainings of the networks of these methods, a part before what needs it."""
    return in_order(plan_own(network, own.schedule, recipe, task, store, bf16) for network in own.networks)
