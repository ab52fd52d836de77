"""Fewer images of each class."""

import numpy as np
from small_tasks import random_images

from proser_core.data.tasks import Labelled
from proser_core.generative.subsets import at_most

IMAGES = Labelled(random_images(7), np.array([1, 0, 1, 1, 2, 0, 1]))


def test_the_first_images_of_each_class_are_kept_in_their_order():
    kept = at_most(IMAGES, 2)
    assert kept.targets.tolist() == [1, 0, 1, 2, 0]
    assert np.array_equal(kept.images, IMAGES.images[[0, 1, 2, 4, 5]])


def test_nothing_is_copied_where_no_class_has_more_or_all_are_asked_for():
    assert at_most(IMAGES, 4) is IMAGES
    assert at_most(IMAGES, 0) is IMAGES
