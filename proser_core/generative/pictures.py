"""Which images of a task a report shows."""

import numpy as np
import torch
from torch import Tensor

from proser_core.data.normalisation import Normaliser
from proser_core.data.tasks import Labelled, OpenSetTask

COLUMNS = 8
"""Images in a row."""


def first_of_each_class(labelled: Labelled, columns: int = COLUMNS) -> np.ndarray:
    """int64[n]: rows of images, the first of every class in turn, then the second, until there are `columns`."""
    targets = np.asarray(labelled.targets)
    nth = np.zeros(len(targets), np.int64)
    for k in np.unique(targets):
        own = targets == k
        nth[own] = np.arange(own.sum())
    return np.lexsort((targets, nth))[:columns]


def shown(task: OpenSetTask, labelled: Labelled, device: torch.device) -> tuple[Tensor, Tensor]:
    """Images to show, float32[n, 3, S, S] normalised as the task's, and their targets int64[n]."""
    assert isinstance(labelled.images, np.ndarray), "networks of a method's own read images from memory"
    rows = first_of_each_class(labelled)
    pixels = torch.from_numpy(np.array(labelled.images[rows])).to(device)
    targets = torch.from_numpy(np.asarray(labelled.targets)[rows]).to(device)
    return Normaliser((task.mean, task.std), device)(pixels), targets
