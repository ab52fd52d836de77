"""Macro-F1 at every threshold at once, against scikit-learn at one after another."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from proser_core.data.splits.class_split import ClassSplit
from proser_core.recognition.metrics import macro_f1_curve, macro_f1_curves
from proser_core.recognition.scoring import OpenSetScores


def by_scikit_learn(scores, guesses, targets, num_known, thresholds) -> np.ndarray:
    return np.array(
        [
            f1_score(targets, np.where(scores <= threshold, guesses, num_known), average="macro")
            for threshold in np.asarray(thresholds)
        ]
    )


@st.composite
def scored_images(draw: st.DrawFn):
    """Scores of few levels, so that they tie with each other and with thresholds, which are in any order."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    num_known, count = draw(st.integers(2, 6)), draw(st.integers(1, 60))
    targets = generator.integers(0, num_known + draw(st.sampled_from([0, 1])), count)
    lucky = generator.random(count) < 0.5
    guesses = np.where(lucky & (targets < num_known), targets, generator.integers(0, num_known, count))
    kind = draw(st.sampled_from([np.float32, np.float64]))
    scores = (np.round(generator.standard_normal(count) * 4) / 4).astype(kind)
    grid = np.round(generator.standard_normal(draw(st.integers(0, 12))) * 8) / 8
    infinite = draw(st.sampled_from([[], [np.inf, -np.inf]]))
    return scores, guesses, targets, num_known, np.concatenate([grid, infinite, generator.choice(scores, 3)])


@given(scored_images())
def test_every_threshold_equals_scikit_learn_to_the_last_digit(case):
    assert macro_f1_curve(*case).tolist() == by_scikit_learn(*case).tolist()


def test_no_threshold_gives_an_empty_curve():
    assert macro_f1_curve(np.ones(2), np.zeros(2, int), np.zeros(2, int), 2, np.array([])).shape == (0,)


@given(st.integers(0, 2**32))
def test_curves_of_all_settings_equal_each_setting_on_its_own(seed):
    generator = np.random.default_rng(seed)
    split = ClassSplit(known=(4, 0, 2), unknown=(1, 5, 3), settings=(1, 3))
    class_ids = generator.integers(0, 6, 80)
    targets = np.array([split.known.index(c) if c in split.known else 3 for c in class_ids.tolist()])
    scores = (np.round(generator.standard_normal(80) * 2) / 2).astype(np.float32)
    guesses, thresholds = generator.integers(0, 3, 80), np.linspace(-2, 2, 9)
    curves = macro_f1_curves(OpenSetScores(guesses, scores, 3, 0.0), targets, class_ids, split, thresholds)
    assert list(curves) == [1, 3]
    for setting, curve in curves.items():
        rows = np.isin(class_ids, split.known + split.unknown_in(setting))
        expected = by_scikit_learn(scores[rows], guesses[rows], targets[rows], 3, thresholds)
        assert curve.tolist() == expected.tolist()
