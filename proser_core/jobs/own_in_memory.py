"""From a task to a classifier with a network of a method's own, in this process and without files."""

from typing import Any

from torch import nn

from proser_core.baselines.method import Method
from proser_core.baselines.tables import fit_score
from proser_core.config import Recipe, to_json
from proser_core.config.own_networks import ScheduleName
from proser_core.data.tasks import OpenSetTask
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import OwnNetwork
from proser_core.jobs.own_plans import check_servable
from proser_core.jobs.own_worker import train_own
from proser_core.jobs.progress import EpochProgress
from proser_core.learning.fit import Metrics, State
from proser_core.learning.training import training_device
from proser_core.naming import look_up
from proser_core.processor import resolve_precision
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logits import task_logits
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.trained_classifier import OwnArchitecture


def train_own_method(
    task: OpenSetTask, recipe: Recipe, method: Method, schedule: ScheduleName, progress: EpochProgress
) -> OpenSetClassifier:
    """Train what a method needs and its own network, fit and calibrate its score, and evaluate it. Raises ConfigError
    for a task that the network cannot serve, TrainingError where a loss is not finite."""
    network = look_up("network", method.network, OWN_NETWORKS)
    check_servable(network, recipe)
    net = _Trainings(task, recipe, schedule, progress).trained(network)
    logits = task_logits(net, task, training_device(recipe), with_training=True)
    score = fit_score(method, logits, task.train.targets)
    report = evaluate(logits, score, task, recipe.calibration.target_rate)
    own = OwnArchitecture(network.name, to_json(network.schedules[schedule]))
    return OpenSetClassifier.of(net.eval(), score, logits, report, task, recipe, own=own)


class _Trainings:
    """Trains networks and what they need, each once."""

    def __init__(self, task: OpenSetTask, recipe: Recipe, schedule: ScheduleName, progress: EpochProgress) -> None:
        self._task, self._recipe, self._schedule, self._progress = task, recipe, schedule, progress
        self._done: dict[str, nn.Module] = {}

    def trained(self, network: OwnNetwork[Any]) -> nn.Module:
        """The network after its training."""
        parts = {name: self._part(name) for name in network.needs}
        schedule = network.schedules[self._schedule]
        self._progress.expect(network.name, schedule.epochs)
        self._progress.begin(network.name, network.name, schedule.epochs, done=0)
        bf16 = resolve_precision(self._recipe)
        net, _ = train_own(network, schedule, self._task, self._recipe, bf16=bf16, parts=parts, report=self._report)
        self._progress.close()
        return net

    def _part(self, name: str) -> nn.Module:
        if name not in self._done:
            self._done[name] = self.trained(OWN_NETWORKS[name]).eval().requires_grad_(False)
        return self._done[name]

    def _report(self, epoch: int, metrics: Metrics, state: State) -> None:
        self._progress.epoch(metrics)
