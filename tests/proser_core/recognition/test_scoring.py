"""Scores of logits, decisions by them, and the probabilities that go with them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_tables import table

from proser_core.errors import DataError
from proser_core.recognition.calibration import Calibration, calibrate
from proser_core.recognition.logit_tables import EmbeddingTable, LogitTable
from proser_core.recognition.scores import MaxSoftmaxProbability, PlaceholderGap, UnknownProbability, placeholder_score
from proser_core.recognition.scores.neighbours import EuclideanNeighbour
from proser_core.recognition.scoring import score, unknown_probabilities

GAP, MSP = PlaceholderGap(), MaxSoftmaxProbability()


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.0, 1.7]), st.floats(0.01, 1.0), st.booleans())
def test_bias_decisions_and_scores_are_those_of_the_papers_difference_to_the_last_bit(seed, weight, rate, ties):
    logits = table(60, seed=seed)
    if ties:
        logits = LogitTable(np.round(logits.known) + 0, np.round(logits.dummies) + 0)  # -0 is 0
    difference = logits.known.max(axis=1) - (np.float32(weight) * logits.dummies.max(axis=1) if weight else 0)
    calibration = calibrate(placeholder_score(weight)(logits), rate)
    bias = float(np.sort(difference)[::-1][math.ceil(rate * 60 - 1e-9) - 1])
    assert repr(calibration.bias) == repr(bias)
    assert calibration.known_rate == np.mean(difference >= bias)
    scores = score(logits, placeholder_score(weight), calibration)
    np.testing.assert_array_equal(scores.unknown_scores, bias - difference, strict=True)
    np.testing.assert_array_equal(
        scores.predictions, np.where(difference >= bias, logits.known.argmax(axis=1), logits.known.shape[1])
    )
    np.testing.assert_array_equal(scores.unknown_scores <= 0, scores.accepted)


def test_probabilities_are_the_softmax_of_the_shifted_logits():
    plain = table(10)
    logits = LogitTable(np.round(plain.known * 64) / 64, np.round(plain.dummies * 64) / 64)  # exact in float32
    for i, row in enumerate(unknown_probabilities(logits, GAP(logits), 0.5)):
        powers = [math.exp(v) for v in [*logits.known[i].tolist(), max(logits.dummies[i].tolist()) + 0.5]]
        np.testing.assert_allclose(row, np.array(powers) / sum(powers), rtol=1e-9)


def test_a_dummy_weight_of_zero_needs_no_dummies():
    logits = table(20, num_dummies=0)
    np.testing.assert_array_equal(placeholder_score(0.0)(logits), -logits.known.max(axis=1))


SCORES = [*map(placeholder_score, (0.0, 0.5, 1.0, 2.0)), MSP]


@given(
    st.sampled_from(SCORES),
    st.integers(0, 10**6),
    st.sampled_from([0.01, 1.0, 30.0]),
    st.one_of(st.floats(-50, 50), st.none()),
)
def test_the_most_probable_entry_is_the_decision(score_function, seed, scale, bias):
    plain = table(30, num_known=4, seed=seed)
    logits = LogitTable(plain.known * np.float32(scale), plain.dummies * np.float32(scale))
    scores = score_function(logits)
    bias = -float(scores[0]) if bias is None else bias  # an image on the border is known
    calibration = Calibration(bias=bias, target_rate=0.95, known_rate=0.95, num_images=1, interval=(0.0, 1.0))
    decisions = score(logits, score_function, calibration).predictions
    np.testing.assert_array_equal(unknown_probabilities(logits, scores, bias).argmax(axis=1), decisions)


def test_an_image_that_is_unknown_by_less_than_its_logits_tell_apart_is_most_probably_unknown():
    """Largest probabilities near 1 differ by 1e-15, and logits of 40 by no less than 7e-15."""
    logits = LogitTable(np.array([[40.0, 0, 0], [38.0, 0, 0], [36.5, 0, 0]], np.float32), np.empty((3, 0), np.float32))
    scores = MSP(logits)
    probabilities = unknown_probabilities(logits, scores, -float(scores[0]))
    assert probabilities.argmax(axis=1).tolist() == [0, 3, 3]


@pytest.mark.parametrize("best", [0.0, 1e-3, 0.5])
def test_an_image_of_small_logits_that_is_unknown_by_the_least_is_most_probably_unknown(best: float) -> None:
    logits = LogitTable(np.array([[best, -1.0, -2.0]], np.float32), np.empty((1, 0), np.float32))
    assert unknown_probabilities(logits, np.array([5e-324]), 0.0).argmax() == 3


def test_probabilities_of_huge_logits_are_finite():
    logits = LogitTable(np.array([[1e4, -1e4]], np.float32), np.array([[-1e4]], np.float32))
    assert unknown_probabilities(logits, GAP(logits), 0.0).tolist() == [[1.0, 0.0, 0.0]]


def test_msp_tells_apart_probabilities_that_round_to_one():
    logits = LogitTable(np.array([[60.0, 0.0], [50.0, 0.0]], np.float32), np.empty((2, 0), np.float32))
    first, second = MSP(logits)
    assert first < second


def test_p_unknown_tells_apart_probabilities_that_round_to_one():
    gaps = np.array([40.0, 50.0, 60.0, 700.0], np.float32)
    logits = LogitTable(np.zeros((4, 2), np.float32), gaps[:, None])  # whose log of a sum, log 2, is no float32
    np.testing.assert_allclose(UnknownProbability()(logits), -2 * np.exp(-gaps.astype(np.float64)), rtol=1e-12)


def test_logits_that_are_nan_are_refused_where_a_score_of_embeddings_is_finite():
    plain, embeddings = table(20), np.random.default_rng(0).standard_normal((20, 5)).astype(np.float32)
    head = np.zeros((2, 5), np.float32), np.zeros(2, np.float32)
    nearest = EuclideanNeighbour.fit(EmbeddingTable(plain.known, plain.dummies, embeddings, *head), np.arange(20) % 2)
    known = plain.known.copy()
    known[3, 1] = np.nan
    broken = EmbeddingTable(known, plain.dummies, embeddings, *head)
    assert np.isfinite(nearest(broken)).all()
    with pytest.raises(DataError, match="the logits of 1 of 20 images give NaN"):
        score(broken, nearest, calibrate(nearest(broken), 0.9))
