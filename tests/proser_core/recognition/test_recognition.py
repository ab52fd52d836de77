"""Scores, cached logits, and one report from calibration to metrics."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from sklearn.metrics import f1_score, roc_auc_score
from small_tasks import CPU, NORMALISATION, random_images, small_task, tiny_closed_set_net, tiny_net
from torch import nn

from proser_core.errors import CalibrationError, DataError
from proser_core.recognition.calibration import Calibration, calibrate
from proser_core.recognition.embedding_table import compute_embedding_table
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logit_tables import SCORED_PARTS, TRAIN, LogitTable, load_logits, save_logits
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.scores import (
    MaxLogit,
    MaxSoftmaxProbability,
    PlaceholderGap,
    UnknownProbability,
    placeholder_score,
)
from proser_core.recognition.scoring import score, unknown_probabilities

GAP, MSP, MAX_LOGIT = PlaceholderGap(), MaxSoftmaxProbability(), MaxLogit()


def table(count: int, num_known: int = 2, num_dummies: int = 3, seed: int = 0) -> LogitTable:
    generator = np.random.default_rng(seed)
    return LogitTable(
        generator.standard_normal((count, num_known)).astype(np.float32),
        generator.standard_normal((count, num_dummies)).astype(np.float32),
    )


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


@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 10.0, 100.0]))
def test_p_unknown_is_the_log_of_the_softmaxs_last_entry(seed, scale):
    drawn = table(30, seed=seed)
    logits = LogitTable(scale * drawn.known, scale * drawn.dummies)
    augmented = np.c_[logits.known, logits.dummies.max(axis=1)].astype(np.float64)
    expected = augmented[:, -1] - logsumexp(augmented, axis=1)
    np.testing.assert_allclose(UnknownProbability()(logits), expected, rtol=1e-12, atol=1e-12)


def test_p_unknown_tells_apart_probabilities_that_round_to_one():
    gaps = np.array([40.0, 50.0, 60.0, 700.0], np.float32)
    logits = LogitTable(np.zeros((4, 1), np.float32), gaps[:, None])
    np.testing.assert_allclose(UnknownProbability()(logits), -np.exp(-gaps.astype(np.float64)), rtol=1e-12)


def test_logits_are_those_of_the_net_in_evaluation_mode_in_the_order_of_the_images():
    net = tiny_net(dropout=0.5).train()
    images = random_images(70)
    logits = compute_logits(net, images, NORMALISATION, CPU)
    assert (logits.known.dtype, logits.known.shape, logits.dummies.shape) == (np.float32, (70, 3), (70, 2))
    alone = compute_logits(tiny_net(dropout=0.5), images[66:67], NORMALISATION, CPU)
    np.testing.assert_allclose(logits.known[66:67], alone.known, atol=1e-5)
    np.testing.assert_allclose(logits.dummies[66:67], alone.dummies, atol=1e-5)


@pytest.mark.parametrize("compute", [compute_logits, compute_embedding_table])
def test_a_device_may_be_named_and_what_are_no_pixels_is_refused(compute):
    net, images = tiny_net(), random_images(4)
    np.testing.assert_array_equal(
        compute(net, images, NORMALISATION, "cpu").known, compute(net, images, NORMALISATION, CPU).known
    )
    for wrong in (images / 255, images[0], images[..., 0], images[0, ..., 0], images[..., :1]):
        with pytest.raises(DataError, match=r"images are .*; need uint8\[N, height, width, 3\]"):
            compute(net, wrong, NORMALISATION, CPU)


class Weighted(nn.Module):
    """Its buffer takes another memory layout to be scored, as all do that go to a GPU."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weights", torch.ones(1, 3, 2, 2))

    def forward(self, images):
        return images.mean(dim=(2, 3)) * self.weights.mean()


def test_a_net_that_was_moved_to_be_scored_can_be_loaded_into():
    net, images = Weighted(), random_images(5)
    before = compute_logits(net, images, NORMALISATION, CPU).known
    net.load_state_dict({"weights": torch.full((1, 3, 2, 2), 2.0)})
    np.testing.assert_array_equal(compute_logits(net, images, NORMALISATION, CPU).known, 2 * before)


def test_a_closed_set_net_has_no_dummy_logits():
    logits = compute_logits(tiny_closed_set_net(4), random_images(5), NORMALISATION, CPU)
    assert (logits.known.shape, logits.dummies.shape, len(logits)) == ((5, 4), (5, 0), 5)


@pytest.mark.parametrize("parts", [SCORED_PARTS, (TRAIN, *SCORED_PARTS)])
def test_cached_logits_come_back_bit_equal_with_those_of_training_images_where_there_are_any(tmp_path, parts):
    tables = {part: table(5 + i, seed=i) for i, part in enumerate(parts)}
    save_logits(tables, tmp_path / "logits.npz")
    loaded = load_logits(tmp_path / "logits.npz")
    assert tuple(loaded) == (*SCORED_PARTS, TRAIN)[: len(parts)]
    for part in parts:
        np.testing.assert_array_equal(loaded[part].known, tables[part].known)
        np.testing.assert_array_equal(loaded[part].dummies, tables[part].dummies)


@pytest.mark.parametrize("score_function", [GAP, MSP, MAX_LOGIT])
def test_a_report_calibrates_on_validation_images_only(score_function):
    task = small_task()
    logits = {"val": table(6, seed=1), "development": table(6, seed=2), "test": table(12, seed=3)}
    report = evaluate(logits, score_function, task, target_rate=0.8)
    val = score_function(logits["val"])
    threshold = sorted(val)[4]
    assert report.calibration.bias == -threshold
    assert report.calibration.known_rate == 5 / 6
    other = evaluate(logits | {"test": table(12, seed=8), "development": table(6, seed=9)}, score_function, task, 0.8)
    assert other.calibration == report.calibration

    development = score_function(logits["development"])
    guesses = logits["val"].known.argmax(1)
    others = logits["development"].known.argmax(1)
    predictions = np.concatenate(
        [np.where(val <= threshold, guesses, 2), np.where(development <= threshold, others, 2)]
    )
    targets = np.concatenate([task.val.targets, np.full(6, 2)])
    assert report.development.macro_f1 == pytest.approx(f1_score(targets, predictions, average="macro"))
    assert report.development.auroc == pytest.approx(roc_auc_score(targets == 2, np.concatenate([val, development])))
    assert report.development.closed_set_accuracy == np.mean(guesses == task.val.targets)


@pytest.mark.parametrize(
    ("part", "value", "error", "message"),
    [
        ("val", np.nan, CalibrationError, "1 of 6 validation scores are not finite"),
        ("development", np.nan, DataError, "1 of 12 scores are NaN"),
        ("test", np.nan, DataError, "1 of 12 test scores are not finite"),
        ("test", np.inf, DataError, "1 of 12 test scores are not finite"),
    ],
)
def test_logits_that_are_not_finite_are_refused_by_part(part, value, error, message):
    logits = {"val": table(6, seed=1), "development": table(6, seed=2), "test": table(12, seed=3)}
    logits[part].known[2] = value
    with pytest.raises(error, match=message):
        evaluate(logits, GAP, small_task(), 0.8)


def test_a_flat_report_names_its_metrics_by_part():
    task = small_task()
    logits = {"val": table(6, seed=1), "development": table(6, seed=2), "test": table(12, seed=3)}
    report = evaluate(logits, GAP, task, 0.8)
    flat = report.flat()
    assert flat["calibration/bias"] == report.calibration.bias
    assert flat["val/known_rate"] == 5 / 6
    assert flat["dev/macro_f1"] == report.development.macro_f1
    assert flat["test/unknown_2/auroc"] == report.test.settings[2].auroc
    assert flat["test/unknown_2/openness"] == pytest.approx(1 - math.sqrt(1 / 2))
    assert report.to_json()["calibration"] == dataclasses.asdict(report.calibration)
