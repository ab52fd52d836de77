"""Methods side by side: which fine-tunes they score, and one rule for all."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.metrics import f1_score
from small_tasks import small_task

from proser_core.baselines import METHODS, Method
from proser_core.baselines.controls import (
    closed_set_scores,
    controls,
    finetunes_of_methods,
    fit_score,
    own_rule_metrics,
    placeholder_scores,
)
from proser_core.config import DataConfig, FinetuneConfig, PretrainConfig, Recipe, named_finetunes
from proser_core.errors import ConfigError
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logit_tables import TRAIN, LogitTable
from proser_core.recognition.scores import SCORES, MaxLogit, PlaceholderGap, ScoreFunction, SmallestError

OWN = FinetuneConfig(epochs=3, batch_size=32, lr=0.5, weight_decay=0.01)
RECIPE = Recipe(name="some", data=DataConfig(name="cifar100"), pretrain=PretrainConfig(epochs=20), finetune=OWN)
COUNTS = {"val": 6, "development": 6, "test": 12}


def tables(seed: int, num_dummies: int = 0) -> dict[str, LogitTable]:
    generator = np.random.default_rng(seed)

    def normal(count, size):
        return generator.standard_normal((count, size)).astype(np.float32)

    return {part: LogitTable(normal(count, 2), normal(count, num_dummies)) for part, count in COUNTS.items()}


def test_what_a_source_states_is_set_and_the_rest_is_the_recipes():
    made = named_finetunes.paper(OWN)
    assert made == replace(FinetuneConfig(), epochs=3, weight_decay=0.01)
    assert named_finetunes.paper(FinetuneConfig()) == FinetuneConfig()
    assert named_finetunes.paper(FinetuneConfig(momentum=0.5, nesterov=True)) == FinetuneConfig()
    assert named_finetunes.tuned(FinetuneConfig()) == named_finetunes.TUNED
    assert named_finetunes.tuned(OWN) == replace(named_finetunes.TUNED, epochs=3, weight_decay=0.01)


def test_each_control_differs_from_its_method_in_the_objective_alone():
    for method, control in (
        ("PROSER", "CE control, MaxLogit"),
        ("PROSER, tuned", "CE control, tuned, MaxLogit"),
        ("PROSER, from scratch", "CE control, from scratch, MaxLogit"),
    ):
        made, beside = (METHODS[name].finetune(RECIPE) for name in (method, control))
        assert beside.objective == "cross_entropy"
        same = {name: getattr(made, name) for name in ("objective", *named_finetunes.PLACEHOLDER_FIELDS)}
        assert replace(beside, **same) == made


def test_fine_tunes_of_methods_are_each_there_once():
    made = finetunes_of_methods(RECIPE)
    wanted = [method.finetune(RECIPE) for method in METHODS.values() if method.finetune]
    assert set(made) == set(wanted)
    assert len(made) == len(set(made))
    twice = [METHODS["PROSER"], replace(METHODS["PROSER"], name="again")]
    assert finetunes_of_methods(RECIPE, twice) == [named_finetunes.paper(OWN)]


@pytest.mark.parametrize(
    ("name", "score_function"),
    [
        ("MaxLogit", MaxLogit()),
        ("PROSER", PlaceholderGap()),
        ("PROSER, tuned", MaxLogit()),
        ("Mixup", PlaceholderGap()),
    ],
)
def test_every_method_has_its_own_score(name, score_function):
    assert fit_score(METHODS[name], tables(1, num_dummies=2), small_task().train.targets) == score_function


@dataclass(frozen=True)
class Shift(ScoreFunction):
    """Minus the first logit, plus the first one of training and its target."""

    shift: float
    name = "shift"
    source = "no paper"
    reads_training = True

    @classmethod
    def fit(cls, training, targets):
        return cls(training.known[0, 0] + targets[0])

    def __call__(self, logits):
        return self.shift - logits.known[:, 0]


def test_a_score_that_reads_training_logits_is_fitted_to_them_and_left_out_without_them(monkeypatch):
    monkeypatch.setitem(SCORES, "shift", Shift)
    method, targets, without = Method("SHIFT", "no paper", Shift), np.array([1, 0]), tables(0)
    logits = without | {TRAIN: LogitTable(np.full((2, 2), 3, np.float32), np.zeros((2, 0), np.float32))}
    fitted = {score.name: score for score in closed_set_scores(logits, targets)}
    np.testing.assert_allclose(fitted["shift"](logits["val"]), 4 - logits["val"].known[:, 0], rtol=1e-6)
    assert {score.name for score in closed_set_scores(without, targets)} == set(fitted) - {"shift", "OpenMax"}
    with pytest.raises(ConfigError, match="SHIFT is fitted to the logits of training images"):
        fit_score(method, without, targets)


class ShiftOfValidation(Shift):
    """The same of the validation images, of which it gets no targets."""

    name = "shift of validation"
    reads_training, reads_validation = False, True

    @classmethod
    def fit(cls, logits, targets):
        assert len(targets) == 0
        return cls(logits.known[0, 0])


class WithDummies(ShiftOfValidation):
    name = "with dummies"
    needs_dummies = True


class OfEmbeddings(Shift):
    name = "of embeddings"
    needs_embeddings = True


def test_a_score_of_dummies_is_refused_for_the_pretrained_net() -> None:
    with pytest.raises(ConfigError, match="mine scores the pretrained net, which has no dummies, and the score gap"):
        Method("mine", "no paper", PlaceholderGap())
    Method("mine", "no paper", PlaceholderGap, finetune=METHODS["PROSER"].finetune)


def test_scores_of_ones_own_are_left_out_where_the_network_lacks_what_they_read(monkeypatch):
    for score in (WithDummies, OfEmbeddings):
        monkeypatch.setitem(SCORES, score.name, score)
    logits = tables(0) | {TRAIN: tables(0)["val"]}
    assert {each.name for each in closed_set_scores(logits, np.arange(6) % 2)} == {"MSP", "MaxLogit", "OpenMax"}
    assert set(placeholder_scores(MaxLogit())) == {"PROSER", "PROSER, gap", "PROSER, p(unknown)"}


def test_a_score_that_reads_validation_logits_is_fitted_to_them():
    logits = tables(0)
    score = fit_score(Method("SHIFT", "no paper", ShiftOfValidation), logits, np.array([1, 0]))
    assert score.shift == logits["val"].known[0, 0]


def test_controls_are_every_score_of_the_pretrained_net_then_of_the_cross_entropy_control():
    task, pretrained, cross_entropy = small_task(), tables(0), tables(1)
    found = controls(pretrained, cross_entropy, task, 0.8)
    assert list(found) == ["MSP", "MaxLogit", "CE control, MSP", "CE control, MaxLogit"]
    assert found["MaxLogit"] == evaluate(pretrained, MaxLogit(), task, 0.8)
    assert found["CE control, MaxLogit"] == evaluate(cross_entropy, MaxLogit(), task, 0.8)
    assert list(controls(pretrained, None, task, 0.8)) == ["MSP", "MaxLogit"]


@pytest.mark.parametrize("threshold", [-0.5, 0.3])
def test_a_rule_of_a_methods_authors_is_measured_in_each_setting(threshold: float) -> None:
    task, logits, score = small_task(), tables(0, num_dummies=2), SmallestError()
    found = own_rule_metrics(METHODS["C2AE"], score, logits, task, {"threshold": threshold})
    named = np.where(logits["test"].dummies.min(axis=1) < threshold, logits["test"].known.argmax(axis=1), 2)
    expected = {}
    for setting, classes in ((1, [4, 1, 3]), (2, [4, 1, 3, 0])):
        rows = np.isin(task.test_classes, classes)
        macro_f1 = f1_score(task.test.targets[rows], named[rows], average="macro")
        expected[f"own_rule/test/unknown_{setting}/macro_f1"] = macro_f1
    assert found == pytest.approx(expected)
    assert own_rule_metrics(METHODS["PROSER"], score, logits, task, {}) == {}
