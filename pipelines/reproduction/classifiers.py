"""Networks that a reproduction trained, as classifiers."""

from dataclasses import replace

from pipelines.reproduction.trained_networks import TrainedNetwork
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.baselines import Method
from proser_core.baselines.controls import fit_score
from proser_core.config import to_json
from proser_core.config.own_networks import ScheduleName
from proser_core.data.tasks import OpenSetTask
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import TaskShape
from proser_core.jobs.network_tables import trained_network
from proser_core.jobs.spec import WEIGHTS
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scored_network import score_network
from proser_core.recognition.trained_classifier import OwnArchitecture


def classifier_of(
    method: Method, network: TrainedNetwork, split: TrainedSplit, schedule: ScheduleName
) -> OpenSetClassifier:
    """A method's trained network with its score, fitted and calibrated as in its row; the recipe names no other."""
    task, recipe = OpenSetTask.load(split.task.path), split.recipe
    if method.finetune is not None:
        recipe = replace(recipe, finetune=method.finetune(recipe))
    logits = network.logits()
    score = fit_score(method, logits, task.train.targets)
    own, weights = None, network.folder / WEIGHTS
    if method.network:
        kind = OWN_NETWORKS[method.network]
        own = OwnArchitecture(kind.name, to_json(kind.schedules[schedule]))
        net = kind.restored(TaskShape(task.num_known, task.image_size), kind.schedules[schedule], weights)
    else:
        finetune = None if method.finetune is None else recipe.finetune
        net = trained_network(recipe, finetune, task.num_known, weights)
    return score_network(recipe, score, logits, task).classifier(net, task, recipe, own=own)
