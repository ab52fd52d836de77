"""The decisions of methods' authors."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from textbook import softmax

from proser_core.baselines.own_rules import below_threshold, half_probability
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.scores import MaxLogit, OpenMax, SmallestError

TABLE = LogitTable(
    known=np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0], [0.0, 1.0]], np.float32),
    dummies=np.array([[0.25, 0.75], [0.75, 0.5], [0.5, 0.25], [0.5, 0.375]], np.float32),
)


def test_the_best_logit_names_what_is_below_the_threshold_and_the_rest_is_unknown() -> None:
    calls = below_threshold(SmallestError(), TABLE, {"threshold": 0.375})
    first, second, unknown = [True, False, False], [False, True, False], [False, False, True]
    assert calls.tolist() == [first, unknown, first, unknown]  # the last one lies on the threshold
    assert below_threshold(SmallestError(), TABLE, {"threshold": 1.0}).tolist() == [first, second, first, second]


@given(st.integers(0, 10**6), st.sampled_from([0.5, 1.0, 4.0]))
def test_an_image_is_called_each_class_of_at_least_one_half(seed: int, scale: float) -> None:
    draw, targets = np.random.default_rng(seed), np.arange(30) % 3
    known, training = (draw.standard_normal((30, 3)).astype(np.float32) * np.float32(scale) for _ in range(2))
    table, nothing = LogitTable(known, known[:, :0]), known[:, :0]
    for image, calls in zip(known.tolist(), half_probability(MaxLogit(), table, {}), strict=True):
        probabilities = softmax(image)
        assert calls.tolist() == [each >= 0.5 for each in [*probabilities, 1 - max(probabilities)]]
    openmax = OpenMax.fit(LogitTable(training + 4 * np.eye(3, dtype=np.float32)[targets], nothing), targets)
    for revised, unknown, calls in zip(*openmax.revise(table), half_probability(openmax, table, {}), strict=True):
        assert calls.tolist() == [each >= 0.5 for each in softmax([*revised.tolist(), float(unknown)])]


def test_an_image_between_two_classes_is_called_both_and_unknown() -> None:
    even = np.zeros((1, 2), np.float32)
    assert half_probability(MaxLogit(), LogitTable(even, even[:, :0]), {}).tolist() == [[True, True, True]]
