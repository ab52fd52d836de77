"""A task's images up to a number of each class, in memory or streamed: what a quick schedule trains on."""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from proser_core.data.image_sets import ImageSource
from proser_core.data.tasks import Labelled


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some of the images of a source."""

    source: ImageSource
    rows: np.ndarray

    @property
    def size(self) -> int:
        return self.source.size

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, rows: np.ndarray, batch_size: int) -> Generator[np.ndarray, None, None]:
        return self.source.batches(self.rows[rows], batch_size)


def at_most(labelled: Labelled, per_class: int) -> Labelled:
    """The first `per_class` images of each class, in their order; all of them where `per_class` is 0."""
    targets = np.asarray(labelled.targets)
    if not per_class or not len(targets) or np.bincount(targets).max() <= per_class:
        return labelled
    rows = np.sort(np.concatenate([np.flatnonzero(targets == k)[:per_class] for k in np.unique(targets)]))
    images = labelled.images
    return Labelled(images[rows] if isinstance(images, np.ndarray) else _Rows(images, rows), targets[rows])
