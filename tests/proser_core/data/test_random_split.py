"""What a random split would have shared with the training, against every split there is."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proser_core.data.group_notes import shared_with_training


def by_every_split(groups: np.ndarray, labels: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Every choice of the training images of every class, one after the other."""
    rows = [np.flatnonzero(labels == label) for label in range(len(trained))]
    shared, left = np.zeros(len(trained)), np.zeros(len(trained))
    for chosen in product(*(combinations(own, count) for own, count in zip(rows, trained, strict=True))):
        training = {row for own in chosen for row in own}
        for row in set(range(len(labels))) - training:
            left[labels[row]] += 1
            shared[labels[row]] += any(groups[row] == groups[other] for other in training)
    return shared / np.maximum(left, 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=8), st.data())
def test_the_share_is_the_mean_over_every_split(images: list[tuple[int, int]], data: st.DataObject) -> None:
    groups, labels = np.array([(0, 0), (1, 1), *images]).T
    trained = np.array([data.draw(st.integers(0, count)) for count in np.bincount(labels)])
    expected = by_every_split(groups, labels, trained)
    assert shared_with_training(groups, labels, trained) == pytest.approx(expected, abs=1e-12)


def test_images_that_are_a_group_each_share_nothing() -> None:
    assert shared_with_training(np.arange(10), np.arange(10) % 2, np.array([4, 4])).tolist() == [0.0, 0.0]


def test_one_mate_is_trained_on_as_often_as_any_other_image() -> None:
    groups = np.repeat(np.arange(50), 2)
    assert shared_with_training(groups, np.zeros(100, np.int64), np.array([72])) == pytest.approx([72 / 99])
