"""The metrics against scikit-learn and against loops that follow their definitions."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, balanced_accuracy_score, f1_score, roc_auc_score, roc_curve

from proser_core.data.splits.class_split import ClassSplit, openness
from proser_core.errors import DataError
from proser_core.recognition.metrics import (
    KnownRanks,
    aupr,
    auroc,
    evaluate_settings,
    fpr_at_positive_rate,
    macro_f1_of_calls,
    open_set_macro_f1,
)
from proser_core.recognition.scoring import OpenSetScores


@st.composite
def scores_of_both(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores of known and of unknown images; a few levels only, so that many tie, or none."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    known, unknown = (generator.standard_normal(draw(st.integers(1, 40))) for _ in range(2))
    known += draw(st.sampled_from([-1.0, 0.0, 1.0]))
    levels = draw(st.sampled_from([1, 2, 0]))
    if levels:
        known, unknown = (np.round(values * levels) / levels for values in (known, unknown))
    return known.astype(np.float32), unknown.astype(np.float32)


@given(scores_of_both())
def test_auroc_aupr_and_fpr95_equal_scikit_learns(scores):
    known, unknown = scores
    labelled = np.repeat([0, 1], [len(known), len(unknown)]), np.concatenate([known, unknown])
    false_rates, true_rates, _ = roc_curve(*labelled, drop_intermediate=False)
    assert auroc(*scores) == pytest.approx(roc_auc_score(*labelled), abs=1e-12)
    assert aupr(*scores) == pytest.approx(average_precision_score(*labelled), abs=1e-12)
    assert fpr_at_positive_rate(*scores) == pytest.approx(false_rates[true_rates >= 0.95 - 1e-12].min(), abs=1e-12)


@given(st.integers(2, 6), st.integers(1, 60), st.integers(0, 2**32))
def test_macro_f1_equals_scikit_learns_over_the_classes_that_occur_or_are_predicted(num_known, count, seed):
    generator = np.random.default_rng(seed)
    targets, predictions = generator.integers(0, num_known + 1, (2, count))
    expected = f1_score(targets, predictions, average="macro")
    assert open_set_macro_f1(predictions, targets, num_known) == pytest.approx(expected, abs=1e-12)


@given(st.integers(2, 6), st.integers(1, 60), st.integers(0, 2**32))
def test_macro_f1_of_several_calls_an_image_is_the_mean_over_each_class_against_the_rest(
    num_known: int, count: int, seed: int
) -> None:
    draw, size = np.random.default_rng(seed), num_known + 1
    targets, calls = draw.integers(0, size, count), draw.random((count, size)) < 0.3
    true = targets[:, None] == np.arange(size)
    each = [f1_score(true[:, k], calls[:, k]) for k in range(size) if (true | calls)[:, k].any()]
    assert macro_f1_of_calls(calls, targets) == pytest.approx(np.mean(each))
    named = draw.integers(0, size, count)
    of_names = open_set_macro_f1(named, targets, num_known)
    assert macro_f1_of_calls(np.eye(size, dtype=bool)[named], targets) == pytest.approx(of_names)


def test_lists_and_small_integers_are_counted_as_any_others():
    targets = [0, 1, 2, 20, 19]
    assert open_set_macro_f1(targets, targets, 20) == 1.0
    small = np.array(targets, np.uint8)
    assert open_set_macro_f1(small, small, 20) == 1.0
    assert open_set_macro_f1(small[::-1], small, 20) == open_set_macro_f1(targets[::-1], targets, 20) < 1.0


@pytest.mark.parametrize(
    ("predictions", "targets", "message"),
    [
        ([0, -1], [0, 1], r"predictions run from -1 to 0; need 0 to 2 .* and 3 for unknown"),
        ([0, 1], [0, 4], r"targets run from 0 to 4; need 0 to 2"),
        ([0, 1], [0], r"got 2 predictions and 1 targets"),
        ([0.0, 1.5], [0, 1], r"predictions are float64\[2\]; need one integer per image"),
        ([0, 1], [[0, 1]], r"targets are int64\[1, 2\]; need one integer per image"),
        ([True, False], [0, 1], r"predictions are bool\[2\]"),
    ],
)
def test_a_macro_f1_of_what_are_no_classes_is_refused(predictions, targets, message):
    with pytest.raises(DataError, match=message):
        open_set_macro_f1(predictions, targets, 3)


def test_an_auroc_takes_lists_and_infinite_scores_and_no_nan():
    assert auroc([0.0, 1.0], [0.5, 2.0]) == auroc([-np.inf, 1], [0.5, np.inf]) == 0.75
    for known, unknown in (([0.0, 1.0], [np.nan, np.nan]), ([np.nan, np.nan], [0.0, 1.0])):
        with pytest.raises(DataError, match="2 of 4 scores are NaN"):
            auroc(known, unknown)


def test_a_known_class_without_a_test_image_costs_no_macro_f1():
    targets = np.array([0, 0, 1, 3])
    assert open_set_macro_f1(targets, targets, 3) == 1.0
    assert open_set_macro_f1(np.array([0, 2, 1, 3]), targets, 3) == pytest.approx((2 / 3 + 1 + 0 + 1) / 4)


def test_a_macro_f1_of_very_many_classes_takes_no_matrix_of_them() -> None:
    """Which would hold 80 GB."""
    targets = np.array([0, 99_999, 100_000, 7])
    assert open_set_macro_f1(np.array([0, 99_999, 100_000, 8]), targets, 100_000) == 3 / 5


def textbook_oscr(known: np.ndarray, correct: np.ndarray, unknown: np.ndarray) -> float:
    """Trapezoids below the points (false positive rate, correct classification rate) of every threshold."""
    points = [(0.0, 0.0)]
    for threshold in sorted(set(known) | set(unknown)):
        accepted = [s <= threshold and c for s, c in zip(known, correct, strict=True)]
        points.append((np.mean([s <= threshold for s in unknown]), sum(accepted) / len(known)))
    return sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in pairwise(points))


@given(scores_of_both(), st.integers(0, 2**32))
def test_oscr_is_the_area_under_the_textbook_curve(scores, seed):
    known, unknown = scores
    correct = np.random.default_rng(seed).random(len(known)) < 0.7
    assert KnownRanks.of(known, correct).oscr(unknown) == pytest.approx(
        textbook_oscr(known, correct, unknown), abs=1e-9
    )


@pytest.mark.parametrize(
    ("known", "total", "percent"),
    [(6, 10, 22.54), (4, 14, 46.55), (4, 54, 72.78), (15, 30, 29.29), (15, 100, 61.27), (20, 200, 68.37)],
)
def test_openness_has_the_papers_values(known, total, percent):
    # For 20 of 200 the paper cuts the digits off: 68.377 is printed as 68.37.
    assert 100 * openness(known, total) == pytest.approx(percent, abs=0.011)


@st.composite
def scored_test_sets(draw: st.DrawFn) -> tuple[OpenSetScores, np.ndarray, np.ndarray, ClassSplit]:
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    order = generator.permutation(9)
    split = ClassSplit(known=tuple(order[:3].tolist()), unknown=tuple(order[3:8].tolist()), settings=(1, 2, 5))
    every_class = np.array(split.known + split.unknown)
    class_ids = np.concatenate([every_class, generator.choice(every_class, draw(st.integers(0, 60)))])
    targets = np.array([split.known.index(c) if c in split.known else 3 for c in class_ids.tolist()])
    values = np.round(generator.standard_normal(len(targets)) * 3).astype(np.float32) / 3
    guesses = np.where((targets < 3) & (generator.random(len(targets)) < 0.6), targets, generator.integers(0, 3))
    return OpenSetScores(guesses, values, 3, bias=-float(generator.choice(values))), targets, class_ids, split


@given(scored_test_sets())
def test_all_settings_at_once_equal_each_setting_on_its_own(case):
    scores, targets, class_ids, split = case
    together = evaluate_settings(scores, targets, class_ids, split)
    for setting in split.settings:
        allowed = split.known + split.unknown[:setting]
        rows = np.array([class_id in allowed for class_id in class_ids])
        truth, values = targets[rows], scores.scores[rows]
        predicted = np.array(
            [g if s <= -scores.bias else 3 for g, s in zip(scores.known_predictions[rows], values, strict=True)]
        )
        is_unknown = truth == 3
        correct = scores.known_predictions[rows] == truth
        false_rates, true_rates, _ = roc_curve(is_unknown, values, drop_intermediate=False)
        expected = {
            "openness": 1 - np.sqrt(3 / (3 + setting)),
            "auroc": roc_auc_score(is_unknown, values),
            "aupr": average_precision_score(is_unknown, values),
            "fpr95": false_rates[true_rates >= 0.95 - 1e-12].min(),
            "oscr": textbook_oscr(values[~is_unknown], correct[~is_unknown], values[is_unknown]),
            "macro_f1": f1_score(truth, predicted, average="macro"),
        }
        assert vars(together.settings[setting]) == pytest.approx(expected, abs=1e-9)


@given(scored_test_sets())
def test_metrics_of_the_known_images_do_not_look_at_the_unknown_ones(case):
    scores, targets, class_ids, split = case
    together = evaluate_settings(scores, targets, class_ids, split)
    known = targets < 3
    guesses, accepted = scores.known_predictions[known], scores.scores[known] <= -scores.bias
    assert together.closed_set_accuracy == np.mean(guesses == targets[known])
    assert together.balanced_accuracy == pytest.approx(balanced_accuracy_score(targets[known], guesses))
    assert together.known_rate == np.mean(accepted)
    assert together.known_accuracy == np.mean((guesses == targets[known]) & accepted)


def test_without_images_there_is_no_metric_and_the_setting_is_named():
    split, scores = ClassSplit(known=(0, 1), unknown=(2, 3), settings=(1, 2)), np.zeros(4, np.float32)
    guesses = OpenSetScores(np.array([0, 1, 0, 0]), scores, 2, 0.0)
    with pytest.raises(DataError, match="setting unknown_1 has no image of its unknown classes"):
        evaluate_settings(guesses, np.array([0, 1, 2, 2]), np.array([0, 1, 3, 3]), split)
    with pytest.raises(DataError, match="no test image of a known class"):
        evaluate_settings(guesses, np.array([2, 2, 2, 2]), np.array([2, 2, 3, 3]), split)
    for known, unknown in (([], scores), (scores, [])):
        with pytest.raises(DataError, match="needs known and unknown images"):
            auroc(np.array(known), np.array(unknown))


def test_flat_metrics_are_named_by_setting():
    scores = OpenSetScores(np.array([0, 1, 0]), np.array([-1.0, -2.0, 1.0]), num_known=2, bias=0.0)
    split = ClassSplit(known=(7, 3), unknown=(0,), settings=(1,))
    flat = evaluate_settings(scores, np.array([0, 1, 2]), np.array([7, 3, 0]), split).flat()
    assert flat["closed_set_accuracy"] == 1.0
    assert flat["unknown_1/auroc"] == 1.0
    assert flat["unknown_1/macro_f1"] == 1.0
    assert set(flat) == {"closed_set_accuracy", "balanced_accuracy", "known_rate", "known_accuracy"} | {
        f"unknown_1/{name}" for name in ("openness", "auroc", "aupr", "fpr95", "oscr", "macro_f1")
    }
