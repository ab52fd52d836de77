"""What holds for the score of every method."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from proser_core.baselines import METHODS
from proser_core.baselines.controls import fit_score
from proser_core.baselines.own_rules import below_threshold, half_probability
from proser_core.recognition.logit_tables import TRAIN, LogitTable
from proser_core.recognition.score_choice import NOTHING
from proser_core.recognition.scores import SCORES, ScoreFunction
from proser_core.titles import C2AE, CROSR

ONE_OF_EACH = list({method.score: name for name, method in reversed(METHODS.items())}.values())
"""The first method of each score."""


def normal(seed: int, count: int, num_known: int, num_dummies: int = 3, scale: float = 3.0) -> LogitTable:
    generator = np.random.default_rng(seed)
    known = scale * generator.standard_normal((count, num_known))
    dummies = scale * generator.standard_normal((count, num_dummies))
    return LogitTable(known.astype(np.float32), dummies.astype(np.float32))


def training_of(seed: int, num_known: int) -> tuple[LogitTable, np.ndarray]:
    training = normal(seed, 12 * num_known, num_known)
    targets = training.known_predictions().copy()
    targets[:num_known] = np.arange(num_known)  # so that no class is missing, and some are wrong
    return training, targets


def fitted_to(name: str, training: LogitTable, targets: np.ndarray) -> ScoreFunction:
    return fit_score(METHODS[name], {TRAIN: training}, targets)


@pytest.mark.parametrize("name", ONE_OF_EACH)
@given(seed=st.integers(0, 10**6), num_known=st.integers(2, 20), count=st.integers(1, 70))
def test_the_score_of_an_image_does_not_depend_on_the_batch(name, seed, num_known, count):
    score, images = fitted_to(name, *training_of(seed, num_known)), normal(seed + 1, count, num_known)
    together = score(images)
    assert together.shape == (count,)
    assert np.isfinite(together).all()
    rows = np.random.default_rng(seed).permutation(count)[: 1 + seed % count]
    for some in (rows, rows[:1]):
        np.testing.assert_array_equal(score(LogitTable(images.known[some], images.dummies[some])), together[some])


@pytest.mark.parametrize("name", ONE_OF_EACH)
@given(seed=st.integers(0, 10**6), num_known=st.integers(2, 8))
def test_the_order_of_the_classes_changes_no_score(name, seed, num_known):
    training, targets = training_of(seed, num_known)
    images, order = normal(seed + 1, 9, num_known), np.random.default_rng(seed).permutation(num_known)
    plain = fitted_to(name, training, targets)
    exchanged = fitted_to(name, LogitTable(training.known[:, order], training.dummies), np.argsort(order)[targets])
    again = exchanged(LogitTable(images.known[:, order], images.dummies))
    np.testing.assert_allclose(again, plain(images), rtol=1e-6, atol=1e-6)


FORMULAS = {
    "MSP": lambda known, dummies: -log_softmax(known, axis=1).max(axis=1),
    "MaxLogit": lambda known, dummies: -known.max(axis=1),
    "gap": lambda known, dummies: dummies.max(axis=1) - known.max(axis=1),
    "p(unknown)": lambda known, dummies: log_softmax(np.c_[known, dummies.max(axis=1)], axis=1)[:, -1],
}


@pytest.mark.parametrize(
    "name", [name for name, score in SCORES.items() if score.in_torch is not ScoreFunction.in_torch]
)
@given(seed=st.integers(0, 10**6), num_known=st.integers(2, 20), scale=st.sampled_from([0.1, 3.0, 40.0]))
def test_a_score_is_its_formula(name, seed, num_known, scale):
    score, images = SCORES[name].fit(NOTHING, np.zeros(0)), normal(seed, 30, num_known, scale=scale)
    expected = FORMULAS[name](images.known.astype(np.float64), images.dummies.astype(np.float64))
    np.testing.assert_allclose(score(images), expected, rtol=1e-6, atol=1e-6)


def test_every_method_says_where_it_comes_from_and_stands_under_its_name():
    for name, method in METHODS.items():
        assert name == method.name
        assert method.source
    pretrained = [name for name, method in METHODS.items() if method.scores_pretrained]
    assert pretrained == [name for name, score in SCORES.items() if not score.needs_dummies]


def test_decisions_of_their_authors_stand_beside_the_methods_that_have_published_ones():
    rules = {name: method.own_rule for name, method in METHODS.items() if method.own_rule is not None}
    ladder, dhr = ("LadderNet + Softmax", "LadderNet + OpenMax"), ("DHRNet + Softmax", "DHRNet + OpenMax", CROSR)
    assert rules == {C2AE: below_threshold, **dict.fromkeys((*ladder, *dhr), half_probability)}
