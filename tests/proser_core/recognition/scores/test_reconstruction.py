"""The smallest error under a class."""

import numpy as np
import torch

from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.scores import OF_OWN_NETWORKS, SCORES, SmallestError

TABLE = LogitTable(
    known=np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]], np.float32),
    dummies=np.array([[0.2, 0.7], [0.9, 0.5], [0.4, 0.3]], np.float32),
)


def test_it_is_a_score_of_one_network_alone():
    assert OF_OWN_NETWORKS[SmallestError.name] is SmallestError
    assert SmallestError.name not in SCORES


def test_the_class_with_the_smallest_error_decides_how_unknown_an_image_is():
    found = SmallestError()(TABLE)
    assert np.array_equal(found, np.array([min(row) for row in TABLE.dummies], np.float32))
    known, dummies = torch.tensor(TABLE.known), torch.tensor(TABLE.dummies)
    assert torch.equal(SmallestError().in_torch(known, dummies), torch.tensor(found))
