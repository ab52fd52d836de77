"""Methods side by side: which networks they score, by one rule, and how one with a network of its own joins them."""

from dataclasses import replace

import numpy as np
import pytest

from proser_core import finetunes
from proser_core.baselines import METHODS, Method
from proser_core.baselines.method import always
from proser_core.baselines.tables import finetunes_of_methods, margins_of, method_reports
from proser_core.config import FinetuneConfig, Recipe
from proser_core.errors import ConfigError
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logits import PARTS, TRAIN, LogitTable, load_logits, save_logits
from proser_core.recognition.scoring import PlaceholderMargin, placeholder_gap

from .helpers import small_task

OWN = FinetuneConfig(epochs=3, batch_size=32, lr=0.5, weight_decay=0.01)
COUNTS = {"val": 6, "development": 6, "test": 12}


def tables(seed: int, num_dummies: int = 0) -> dict[str, LogitTable]:
    generator = np.random.default_rng(seed)

    def normal(count, size):
        return generator.standard_normal((count, size)).astype(np.float32)

    return {part: LogitTable(normal(count, 2), normal(count, num_dummies)) for part, count in COUNTS.items()}


def test_what_a_source_states_is_set_and_the_rest_is_the_recipes():
    made = finetunes.paper(OWN)
    assert made == replace(FinetuneConfig(), epochs=3, weight_decay=0.01)
    assert finetunes.paper(FinetuneConfig()) == FinetuneConfig()
    assert finetunes.tuned(FinetuneConfig()) == finetunes.OPEN_SET
    assert finetunes.tuned(OWN) == replace(finetunes.OPEN_SET, epochs=3, weight_decay=0.01)


def test_each_control_differs_from_its_method_in_the_objective_alone():
    for method, control in (("PROSER", "CE fine-tune, MaxLogit"), ("PROSER, tuned", "CE fine-tune, tuned, MaxLogit")):
        made, beside = (METHODS[name].finetune(OWN) for name in (method, control))
        assert beside.objective == "cross_entropy"
        same = {name: getattr(made, name) for name in ("objective", *finetunes.PLACEHOLDER_FIELDS)}
        assert replace(beside, **same) == made


def test_fine_tunes_of_methods_are_each_there_once():
    made = finetunes_of_methods(OWN)
    wanted = [method.finetune(OWN) for method in METHODS.values() if method.finetune]
    assert set(made) == set(wanted)
    assert len(made) == len(set(made))
    twice = [METHODS["PROSER"], replace(METHODS["PROSER"], name="again")]
    assert finetunes_of_methods(OWN, twice) == [finetunes.paper(OWN)]


def test_every_method_is_evaluated_on_its_own_network_by_one_rule():
    task, recipe = small_task(), Recipe(finetune=OWN)
    nets = {tuned: tables(seed, tuned.num_dummies) for seed, tuned in enumerate(finetunes_of_methods(OWN), start=1)}
    methods = [METHODS[name] for name in ("MaxLogit", "PROSER", "PROSER, tuned", "Mixup")]
    pretrained = tables(0)
    reports = method_reports(methods, recipe, task, pretrained, nets.__getitem__)
    assert list(reports) == [method.name for method in methods]
    rate = recipe.calibration.target_rate
    assert reports["MaxLogit"] == evaluate(pretrained, PlaceholderMargin(0.0), task, rate)
    assert reports["PROSER"] == evaluate(nets[finetunes.paper(OWN)], placeholder_gap, task, rate)
    assert reports["PROSER, tuned"] == evaluate(nets[finetunes.tuned(OWN)], PlaceholderMargin(0.0), task, rate)
    assert reports["Mixup"] == evaluate(nets[finetunes.mixup_only(OWN)], placeholder_gap, task, rate)


def own_network(task, recipe, folder):
    """Stands for a generative method: known logits, and in one column what speaks for unknown."""
    save_logits(tables(recipe.seed, 1), folder / "logits.npz")


def test_a_method_with_a_network_of_its_own_is_one_more_method(tmp_path):
    task, recipe = small_task(), Recipe(seed=7)
    method = Method("OWN", "no paper", always(placeholder_gap), train=own_network)

    def trained(one):
        one.train(task, recipe, tmp_path)
        return load_logits(tmp_path / "logits.npz")

    assert finetunes_of_methods(OWN, [method]) == []
    reports = method_reports([method], recipe, task, tables(0), pytest.fail, trained)
    assert reports == {"OWN": evaluate(tables(7, 1), placeholder_gap, task, recipe.calibration.target_rate)}
    with pytest.raises(ConfigError, match="OWN trains a network of its own"):
        method_reports([method], recipe, task, tables(0), pytest.fail)


def first_training_logit(training, targets):
    shift = training.known[0, 0] + targets[0]
    return lambda logits: logits.known[:, 0] - shift


def test_a_score_that_reads_training_logits_is_fitted_to_them_and_left_out_without_them(monkeypatch):
    method = Method("SHIFT", "no paper", first_training_logit, score="shift", reads_training=True)
    monkeypatch.setitem(METHODS, "SHIFT", method)
    targets, without = np.array([1, 0]), tables(0)
    logits = without | {TRAIN: LogitTable(np.full((2, 2), 3, np.float32), np.zeros((2, 0), np.float32))}
    margin = margins_of(logits, targets)["shift"]
    np.testing.assert_allclose(margin(logits["val"]), logits["val"].known[:, 0] - 4, rtol=1e-6)
    assert set(margins_of(without, targets)) == set(margins_of(logits, targets)) - {"shift", "OpenMax"}
    with pytest.raises(ConfigError, match="SHIFT is fitted to the logits of training images"):
        method_reports([method], Recipe(), small_task(), without, pytest.fail)


def test_logits_of_training_images_are_a_part_that_may_be_missing(tmp_path):
    logits = tables(0)
    save_logits(logits, tmp_path / "without.npz")
    assert tuple(load_logits(tmp_path / "without.npz")) == PARTS
    save_logits({TRAIN: logits["test"], **logits}, tmp_path / "with.npz")
    loaded = load_logits(tmp_path / "with.npz")
    assert tuple(loaded) == (*PARTS, TRAIN)
    np.testing.assert_array_equal(loaded[TRAIN].known, logits["test"].known)
