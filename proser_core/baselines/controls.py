"""Methods side by side on one task, or several scores of one network."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from proser_core.baselines import METHODS, Method
from proser_core.config import FinetuneConfig, Recipe
from proser_core.data.splits.class_split import where
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError
from proser_core.recognition.evaluation import EvaluationReport, evaluate
from proser_core.recognition.logit_tables import TRAIN
from proser_core.recognition.metrics import macro_f1_of_calls
from proser_core.recognition.score_choice import NOTHING, Tables, candidates, fitted
from proser_core.recognition.scores import SCORES, MaxLogit, ScoreFunction
from proser_core.titles import CONTROL, PROSER, scored

OWN_RULE = "own_rule"


def finetunes_of_methods(recipe: Recipe, methods: Iterable[Method] = METHODS.values()) -> list[FinetuneConfig]:
    """The fine-tunes that methods score, each once."""
    return list(dict.fromkeys(method.finetune(recipe) for method in methods if method.finetune is not None))


def own_rule_metrics(
    method: Method, score: ScoreFunction, logits: Tables, task: OpenSetTask, facts: Mapping[str, Any]
) -> dict[str, float]:
    """Macro-F1 of each setting by the rule of the method's authors, as `own_rule/test/.../macro_f1`; empty where it has
    none of its own. `facts` are those of its network."""
    if method.own_rule is None or not len(task.test):
        return {}
    calls, targets = method.own_rule(score, logits["test"], facts), np.asarray(task.test.targets)
    found = {}
    for setting in task.split.settings:
        rows = (targets < task.num_known) | np.isin(task.test_classes, task.split.unknown_in(setting))
        found[f"{OWN_RULE}/{where(setting)}/macro_f1"] = macro_f1_of_calls(calls[rows], targets[rows])
    return found


def controls(
    pretrained: Tables | None,
    cross_entropy: Tables | None,
    task: OpenSetTask,
    target_rate: float,
    targets: np.ndarray | None = None,
) -> dict[str, EvaluationReport]:
    """What placeholders have to beat on a class split, by its name in every table: each score of the pretrained network
    and of the cross-entropy control, where there is one, calibrated and evaluated alike.

    `targets` are of the training images in the tables; by default they hold all of the task's. Raises CalibrationError
    for a network that has diverged.
    """

    def reports(logits: Tables | None) -> dict[str, EvaluationReport]:
        if logits is None:
            return {}
        scores = closed_set_scores(logits, task.train.targets if targets is None else targets)
        return {score.name: evaluate(logits, score, task, target_rate) for score in scores}

    return reports(pretrained) | {scored(CONTROL, name): each for name, each in reports(cross_entropy).items()}


def closed_set_scores(logits: Tables, targets: np.ndarray) -> list[ScoreFunction]:
    """Every score of a network without placeholders, fitted to its own training images if need be.

    `targets` are those of the training images. Without their logits, as in a fine-tune, a score that reads them is
    left out.
    """
    known = [score for score in candidates(logits) if score in SCORES.values() and not score.needs_dummies]
    return [fitted(score, logits, np.asarray(targets)) for score in known]


def placeholder_scores(own: ScoreFunction) -> dict[str, ScoreFunction]:
    """The scores of a network with placeholders by the names of their rows: its own, then the others."""
    with_dummies = [score for score in SCORES.values() if score.needs_dummies]
    unfitted = [score for score in with_dummies if not (score.reads_training or score.reads_validation)]
    scores = [*(score.fit(NOTHING, np.zeros(0, np.int64)) for score in unfitted), MaxLogit()]
    others = [score for score in scores if score != own]
    return {PROSER: own, **{scored(PROSER, score.name): score for score in others}}


def fit_score(method: Method, logits: Tables, targets: np.ndarray) -> ScoreFunction:
    """The method's score for a network, fitted as `fitted` does. Raises ConfigError where it needs training logits or
    embeddings that are not there."""
    if isinstance(method.score, ScoreFunction):
        return method.score
    if method.score.reads_training and TRAIN not in logits:
        raise ConfigError(
            f"{method.name} is fitted to the logits of training images, and this network's were not kept; "
            "only those of a pretraining are. Give the method no finetune, or a score whose reads_training is False"
        )
    return fitted(method.score, logits, np.asarray(targets))
