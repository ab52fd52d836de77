"""Images that a report shows."""

import numpy as np
import torch
from small_tasks import CPU, small_task

from proser_core.data.tasks import Labelled
from proser_core.generative.pixels import first_of_each_class, picture, shown


def test_the_classes_take_turns():
    targets = np.array([2, 2, 0, 2, 0, 1])
    labelled = Labelled(np.zeros((6, 8, 8, 3), np.uint8), targets)
    assert first_of_each_class(labelled).tolist() == [2, 5, 0, 4, 1, 3]
    assert first_of_each_class(labelled, columns=4).tolist() == [2, 5, 0, 4]


def test_shown_images_are_those_of_the_task():
    task = small_task()
    images, targets = shown(task, task.val, CPU)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (task.mean, task.std))
    rows = first_of_each_class(task.val)
    assert np.array_equal(picture(images * std + mean)[0], task.val.images[rows])
    assert targets.tolist() == task.val.targets[rows].tolist()


def test_a_part_without_images_gives_none():
    task = small_task()
    images, _ = shown(task, Labelled(task.val.images[:0], task.val.targets[:0]), CPU)
    assert images.shape == (0, 3, 8, 8)
