"""`Layout`: a way in which a data directory holds a data set."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from proser_core.data.image_sets import ImageSet
from proser_core.data.readers.fingerprints import Fingerprints

Part = Literal["train", "val", "test"]
Classes = Collection[int] | None
"""Class ids of the images that are asked for; None for all."""


class Layout(Protocol):
    """Finds and reads a data set below a root folder."""

    @property
    def name(self) -> str:
        """What `proser list` calls it."""

    @property
    def needs(self) -> str:
        """What the root holds, for people; empty if no root is needed."""

    def is_present(self, root: Path) -> bool:
        """Whether the root holds the data set."""

    def fingerprints(self, root: Path) -> Fingerprints:
        """Name, bytes and time of change of what is read; of folders of images, digests of each."""

    def read(self, root: Path, part: Part, *, size: int, classes: Classes = None, count: int | None = None) -> ImageSet:
        """Images of `classes`, `size` pixels square; the others are not decoded.

        Raises DataError for a missing or damaged file, and where the part does not have `count` images in all.
        """


def of_classes(labels: np.ndarray, classes: Classes) -> np.ndarray:
    """bool[N]: which of the labels are among `classes`."""
    return np.ones(len(labels), bool) if classes is None else np.isin(labels, list(classes))


@dataclass(frozen=True)
class Embedded:
    """Images that come with an installed package."""

    read_part: Callable[[Part, int], ImageSet]
    name: str = "embedded"
    needs: str = ""

    def is_present(self, root: Path) -> bool:
        return True

    def fingerprints(self, root: Path) -> Fingerprints:
        return []

    def read(self, root: Path, part: Part, *, size: int, classes: Classes = None, count: int | None = None) -> ImageSet:
        images = self.read_part(part, size)
        return images.select(of_classes(images.labels, classes))
