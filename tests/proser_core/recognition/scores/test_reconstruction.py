"""The smallest error under a class, and the rule of C2AE's authors."""

import numpy as np
import torch

from proser_core.generative.gpd import best_threshold
from proser_core.recognition.logits import LogitTable
from proser_core.recognition.scores import OF_OWN_NETWORKS, SCORES, SmallestError
from proser_core.recognition.scores.reconstruction import below_own_threshold

TABLE = LogitTable(
    known=np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]], np.float32),
    dummies=np.array([[0.2, 0.7], [0.9, 0.5], [0.4, 0.3]], np.float32),
)


def test_it_is_a_score_of_one_network_alone():
    assert OF_OWN_NETWORKS[SmallestError.name] is SmallestError
    assert SmallestError.name not in SCORES


def test_the_class_with_the_smallest_error_decides_how_unknown_an_image_is():
    score = SmallestError(0.4)
    assert np.array_equal(score(TABLE), np.array([0.2, 0.5, 0.3], np.float32))
    assert torch.equal(
        score.in_torch(torch.tensor(TABLE.known), torch.tensor(TABLE.dummies)), torch.tensor(score(TABLE))
    )


def test_by_the_own_rule_the_best_logit_names_what_is_below_the_threshold():
    calls = below_own_threshold(SmallestError(0.4), TABLE)
    assert calls.tolist() == [[True, False, False], [False, False, True], [True, False, False]]


def test_an_error_at_the_threshold_is_unknown():
    assert below_own_threshold(SmallestError(float(np.float32(0.3))), TABLE)[2].tolist() == [False, False, True]


def test_the_threshold_is_fitted_to_errors_of_training_images_under_their_own_and_the_next_class():
    draw, targets = np.random.default_rng(0), np.arange(300) % 3
    errors = draw.gamma(8.0, 0.05, (300, 3)).astype(np.float32)
    errors[np.arange(300), targets] *= 0.3
    training = LogitTable(draw.normal(size=(300, 3)).astype(np.float32), errors)
    right = np.array([errors[row, target] for row, target in enumerate(targets)])
    wrong = np.array([errors[row, (target + 1) % 3] for row, target in enumerate(targets)])
    fitted = SmallestError.fit(training, targets)
    assert fitted.threshold == best_threshold(right, wrong)
    assert right.mean() < fitted.threshold < wrong.mean()
