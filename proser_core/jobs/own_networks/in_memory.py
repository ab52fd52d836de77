"""From a task to a classifier with a network of a method's own, in this process and without files."""

from typing import Any

from torch import nn

from proser_core.baselines.controls import fit_score
from proser_core.baselines.method import Method
from proser_core.config import Recipe, to_json
from proser_core.config.own_networks import ScheduleName
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import OwnNetwork
from proser_core.jobs.own_networks.plans import check_servable, with_needs
from proser_core.jobs.own_networks.worker import train_own
from proser_core.jobs.progress import EpochProgress
from proser_core.learning.fit import Metrics, State
from proser_core.learning.training import training_device
from proser_core.processor import resolve_precision
from proser_core.recognition.logits import task_logits
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scored_network import score_network
from proser_core.recognition.trained_classifier import OwnArchitecture


def train_own_method(
    task: OpenSetTask, recipe: Recipe, method: Method, schedule: ScheduleName, progress: EpochProgress
) -> OpenSetClassifier:
    """Train what a method needs and its own network, fit and calibrate its score, and evaluate it; the recipe names no
    other score. Raises ConfigError for a task that the network cannot serve or mirrored images, TrainingError where a
    loss is not finite."""
    if recipe.calibration.mirror:
        raise ConfigError(
            f"calibration.mirror is on, and images are not mirrored for {method.name}, which has a network of its own; "
            "turn it off"
        )
    network = OWN_NETWORKS[method.network]
    check_servable(network, recipe)
    net = _trained(network, task, recipe, schedule, progress)
    logits = task_logits(net, task, training_device(recipe), with_training=True)
    score = fit_score(method, logits, task.train.targets)
    own = OwnArchitecture(network.name, to_json(network.schedules[schedule]))
    return score_network(recipe, score, logits, task).classifier(net.eval(), task, recipe, own=own)


def _trained(
    network: OwnNetwork[Any], task: OpenSetTask, recipe: Recipe, schedule: ScheduleName, progress: EpochProgress
) -> nn.Module:
    """The network after its training, and those of all that it needs."""
    bf16, done = resolve_precision(recipe), dict[str, nn.Module]()

    def report(epoch: int, metrics: Metrics, state: State) -> None:
        progress.epoch(metrics)

    for each in with_needs(network):
        how, parts = each.schedules[schedule], {name: done[name].eval().requires_grad_(False) for name in each.needs}
        progress.expect(each.name, how.epochs)
        progress.begin(each.name, each.name, how.epochs, done=0)
        done[each.name], _ = train_own(each, how, task, recipe, bf16=bf16, parts=parts, report=report)
        progress.close()
    return done[network.name]
