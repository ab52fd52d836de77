"""OpenMax against a slow twin that handles one image and one class after another."""

import logging
import math

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from proser_core.errors import CalibrationError
from proser_core.learning.tails import eucos, fit_weibull, revise, w_scores
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.scores.openmax import Crosr, OpenMax


def logits_of(known: np.ndarray) -> LogitTable:
    known = np.asarray(known, np.float32)
    return LogitTable(known, np.zeros((len(known), 0), np.float32))


def training_of(seed: int, num_known: int, per_class: int = 15, pull: float = 4.0) -> tuple[LogitTable, np.ndarray]:
    """Logits that mostly are largest at the target; a few images are wrong."""
    generator = np.random.default_rng(seed)
    targets = generator.permutation(np.repeat(np.arange(num_known), per_class))
    known = generator.standard_normal((len(targets), num_known)) + pull * np.eye(num_known)[targets]
    return logits_of(known), targets


def textbook_score(training: LogitTable, targets: np.ndarray, image: np.ndarray, tail_size: int, alpha: int) -> float:
    """Algorithms 1 and 2, with libMR's translation by 1 and the tail's smallest distance."""
    num_known = training.known.shape[1]
    order = sorted(range(num_known), key=lambda k: -image[k])
    revised, unknown = [], 0.0
    for k in range(num_known):
        rows = [row for row, y in zip(training.known.astype(float), targets, strict=True) if row.argmax() == y == k]
        mean = sum(rows) / len(rows)
        tail = sorted(distance(row, mean) for row in rows)[-tail_size:]
        shape, _, scale = scipy.stats.weibull_min.fit([d - tail[0] + 1 for d in tail], floc=0)
        w_score = scipy.stats.weibull_min.cdf(distance(image, mean) - tail[0] + 1, shape, scale=scale)
        rank = order.index(k) + 1
        weight = (alpha + 1 - rank) / alpha if rank <= alpha else 0.0
        taken = image[k] * weight * w_score
        revised.append(image[k] - taken)
        unknown += taken
    powers = [math.exp(value) for value in [*revised, unknown]]
    return -math.log(max(powers[:-1]) / sum(powers))


def distance(first: np.ndarray, second: np.ndarray) -> float:
    return scipy.spatial.distance.euclidean(first, second) / 200 + scipy.spatial.distance.cosine(first, second)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(5, 30), st.integers(1, 6))
def test_the_score_is_the_textbooks(seed, num_known, tail_size, alpha):
    training, targets = training_of(seed, num_known)
    images = np.random.default_rng(seed + 1).standard_normal((4, num_known)).astype(np.float32) * 3
    scores = OpenMax.fit(training, targets, tail_size, alpha)(logits_of(images))
    alpha = min(alpha, num_known)
    expected = [textbook_score(training, targets, row.astype(float), tail_size, alpha) for row in images]
    np.testing.assert_allclose(scores, expected, rtol=2e-3, atol=2e-3)  # scipy's search ends beside the maximum


def test_unless_told_otherwise_tails_have_20_images_and_the_10_best_classes_are_revised() -> None:
    """The settings of the authors' code."""
    training, targets = training_of(0, 12, per_class=30)
    images = training_of(1, 12)[0]
    expected = OpenMax.fit(training, targets, tail_size=20, alpha=10)(images)
    np.testing.assert_array_equal(OpenMax.fit(training, targets)(images), expected)


@given(st.integers(0, 10**6), st.integers(3, 40), st.floats(0.05, 50))
def test_the_weibull_is_the_most_likely_one(seed, count, spread):
    values = 1 + spread * np.random.default_rng(seed).random(count)
    shape, scale = fit_weibull(values)

    def likelihood(shape: float, scale: float) -> float:
        return scipy.stats.weibull_min.logpdf(values, shape, scale=scale).sum()

    best = likelihood(shape, scale)
    theirs, _, width = scipy.stats.weibull_min.fit(values, floc=0)
    assert best >= likelihood(theirs, width) - 1e-9
    for factor in (0.999, 1.001):
        assert best >= likelihood(shape * factor, scale)
        assert best >= likelihood(shape, scale * factor)


@given(st.integers(0, 10**6), st.integers(2, 12))
def test_what_is_taken_from_the_known_classes_goes_to_unknown(seed, num_known):
    training, targets = training_of(seed, num_known)
    table = logits_of(np.random.default_rng(seed).standard_normal((20, num_known)) * 5)
    revised, unknown = OpenMax.fit(training, targets).revise(table)
    images = table.known.astype(np.float64)
    np.testing.assert_allclose(revised.sum(axis=1) + unknown, images.sum(axis=1), rtol=1e-9, atol=1e-9)
    assert (np.abs(revised) <= np.abs(images)).all()
    assert (revised * images >= 0).all()


def test_of_many_classes_and_images_each_is_scored_as_by_all_distances_at_once(monkeypatch):
    """Distances to classes without weight are not computed, and images not held at once: no bit depends on either."""
    training, targets = training_of(5, 30, per_class=4)
    table, score = logits_of(np.random.default_rng(5).standard_normal((50, 30)) * 5), OpenMax.fit(training, targets)
    assert score.alpha < 30
    distances = eucos(score.features(table), score.means)
    beyond = w_scores(distances, score.shapes, score.scales, score.starts)
    for found, expected in zip(
        score.revise(table), revise(table.known.astype(np.float64), beyond, score.alpha), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    whole = score(table)
    monkeypatch.setattr(OpenMax, "at_once", 7)
    np.testing.assert_array_equal(score(table), whole)


def test_an_image_at_the_mean_of_its_class_is_known_and_one_far_from_all_is_not():
    training, targets = training_of(0, 4, per_class=40)
    score = OpenMax.fit(training, targets)
    near, far = logits_of(score.means), logits_of(np.full((1, 4), 4) + np.eye(4)[:1])
    assert score(near).max() < -math.log(0.5)
    revised, unknown = score.revise(far)
    assert unknown > revised.max()


def test_only_correctly_classified_images_make_means_and_tails():
    training, targets = training_of(3, 3, pull=1.5)
    right = training.known_predictions() == targets
    assert 0 < right.sum() < len(right)
    images = logits_of(np.random.default_rng(0).standard_normal((9, 3)))
    alone = OpenMax.fit(LogitTable(training.known[right], training.dummies[right]), targets[right])
    np.testing.assert_array_equal(OpenMax.fit(training, targets)(images), alone(images))


def test_a_class_without_a_tail_of_its_own_borrows_that_of_all_and_is_named(caplog):
    training, targets = training_of(1, 3)
    known = training.known.copy()
    known[targets == 2] = [5, 0, 0]  # none is classified correctly
    known[targets == 1] = [0, 7, 1]  # all at one place
    with caplog.at_level(logging.WARNING):
        score = OpenMax.fit(logits_of(known), targets)
    assert score.borrowed == (1, 2)
    assert "fewer than three training images of known class 1, 2 are classified" in caplog.text
    np.testing.assert_array_equal(score.means[2], [5, 0, 0])
    assert len({(score.shapes[k], score.scales[k], score.starts[k]) for k in (1, 2)}) == 1
    assert np.isfinite(score(training)).all()


def test_one_correct_image_is_the_mean_of_its_class_and_without_any_all_are():
    known = np.array([[5, 0, 0], [4, 0, 0], [0, 6, 0], [7, 1, 0], [0, 9, 2], [0, 8, 0]], float)
    means = OpenMax.fit(logits_of(known), np.array([0, 0, 1, 1, 2, 2])).means
    np.testing.assert_allclose(means, [[4.5, 0, 0], [0, 6, 0], [0, 8.5, 1]])


def test_two_correct_images_are_too_few_for_a_tail_even_at_two_distances():
    training, targets = training_of(1, 3)
    known = training.known.copy()
    known[targets == 0] = [0, 9, 0]
    known[np.flatnonzero(targets == 0)[:2]] = [[5, 0, 1], [9, 2, -1]]
    assert OpenMax.fit(logits_of(known), targets).borrowed == (0,)


def test_of_many_classes_that_borrow_the_first_are_named(caplog):
    with caplog.at_level(logging.WARNING):
        OpenMax.fit(logits_of(np.eye(100)), np.arange(100))
    assert "of known class 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 88 more are classified" in caplog.text


def test_without_any_tail_nothing_is_revised():
    flat, targets = logits_of(np.zeros((6, 2))), np.arange(6) % 2
    score = OpenMax.fit(flat, targets)
    assert score.borrowed == (0, 1)
    images = np.array([[3.0, 1.0], [-2.0, -1.0]])
    revised, unknown = score.revise(logits_of(images))
    np.testing.assert_array_equal(revised, images)
    np.testing.assert_array_equal(unknown, 0)


def test_a_class_without_training_images_and_logits_that_are_not_finite_are_refused():
    training, targets = training_of(0, 3)
    with pytest.raises(CalibrationError, match="there are 0 of class 1"):
        OpenMax.fit(training, np.where(targets == 1, 0, targets))
    known = training.known.copy()
    known[:2, 1], known[5] = np.nan, np.inf
    with pytest.raises(CalibrationError, match="needs finite logits; those of 3 of 45 training images are not"):
        OpenMax.fit(logits_of(known), targets)


def test_large_logits_keep_their_order_and_are_finite():
    training, targets = training_of(0, 3)
    scores = OpenMax.fit(training, targets)(logits_of([[60, 0, 0], [50, 0, 0], [1e4, 1e4, 1e4], [0, 0, 0]]))
    assert np.isfinite(scores).all()
    assert scores[0] != scores[1]


def test_no_image_has_no_score():
    score = OpenMax.fit(*training_of(0, 3))
    assert score(logits_of(np.zeros((0, 3)))).shape == (0,)


def test_crosr_is_openmax_by_euclidean_distances_of_logits_and_features_together():
    training, targets = training_of(2, 3, per_class=30)
    drawn = np.random.default_rng(0).standard_normal((len(targets), 4)).astype(np.float32)
    both = LogitTable(training.known, drawn + targets[:, None])
    score = Crosr.fit(both, targets, tail_size=7)
    images = LogitTable(both.known[:9], both.dummies[9:18])
    features = np.concatenate([both.known, both.dummies], axis=1).astype(np.float64)
    correct = both.known.argmax(axis=1) == targets
    for row, (known, dummies) in enumerate(zip(images.known, images.dummies, strict=True)):
        image = np.concatenate([known, dummies]).astype(np.float64)
        taken, revised = 0.0, known.astype(np.float64)
        for rank, k in enumerate(np.argsort(-known, kind="stable")):
            own = features[(targets == k) & correct]
            mean = own.mean(axis=0)
            tail = np.sort([math.dist(each, mean) for each in own])[-7:]
            shape, scale = fit_weibull(tail - tail[0] + 1)
            beyond = max(0.0, math.dist(image, mean) - tail[0] + 1)
            w = (1 - math.exp(-((beyond / scale) ** shape))) * (1 - rank / 3)
            taken += float(known[k]) * w
            revised[k] -= float(known[k]) * w
        powers = np.exp([*revised, taken])
        expected = -math.log(powers[:3].max() / powers.sum())
        assert score(images)[row] == pytest.approx(expected, rel=1e-9)


def test_crosr_of_nothing_but_logits_differs_from_openmax_in_the_distance_alone(monkeypatch):
    training, targets = training_of(0, 4)
    monkeypatch.setattr(Crosr, "distance", staticmethod(eucos))
    crosr, openmax = (kind.fit(training, targets) for kind in (Crosr, OpenMax))
    np.testing.assert_array_equal(crosr.of_table(training), openmax.of_table(training))  # a call asks for dummies
