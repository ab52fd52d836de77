"""A task's images up to a number of each class: what a quick schedule trains on."""

from dataclasses import dataclass

import numpy as np

from proser_core.data.tasks import Labelled
from proser_core.generative.own_network import Schedule


@dataclass(frozen=True, kw_only=True)
class SubsetSchedule(Schedule):
    """A schedule that may take a part of the training images."""

    per_class: int = 0
    """Training images of a class, at most; 0 takes all."""

    def epoch_images(self, count: int, num_known: int) -> int:
        """Images that an epoch passes over, as if classes had equally many."""
        return min(count, self.per_class * num_known) if self.per_class else count


def at_most(labelled: Labelled, per_class: int) -> Labelled:
    """The first `per_class` images of each class, in their order; all of them where `per_class` is 0."""
    targets = np.asarray(labelled.targets)
    if not per_class or np.bincount(targets).max() <= per_class:
        return labelled
    assert isinstance(labelled.images, np.ndarray), "networks of a method's own read images from memory"
    rows = np.sort(np.concatenate([np.flatnonzero(targets == k)[:per_class] for k in np.unique(targets)]))
    return Labelled(labelled.images[rows], targets[rows])
