"""The decision of C2AE's authors."""

import numpy as np

from proser_core.baselines.own_rules import below_threshold
from proser_core.recognition.scores import SmallestError
from proser_core.recognition.tables import LogitTable

TABLE = LogitTable(
    known=np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0], [0.0, 1.0]], np.float32),
    dummies=np.array([[0.25, 0.75], [0.75, 0.5], [0.5, 0.25], [0.5, 0.375]], np.float32),
)


def test_the_best_logit_names_what_is_below_the_threshold_and_the_rest_is_unknown():
    calls = below_threshold(SmallestError(), TABLE, {"threshold": 0.375})
    first, second, unknown = [True, False, False], [False, True, False], [False, False, True]
    assert calls.tolist() == [first, unknown, first, unknown]  # the last one lies on the threshold
    assert below_threshold(SmallestError(), TABLE, {"threshold": 1.0}).tolist() == [first, second, first, second]
