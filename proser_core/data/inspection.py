"""`inspect_folder`: a folder of one's own images as it is, before anything is trained on it.

It is read by what a run reads it with: the same classes, formats and limits, near duplicates and groups. But nothing is
refused: what a run would stop at is a finding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proser_core.data.decoding import Failure
from proser_core.data.grouping import Grouping
from proser_core.data.image_sets import ImageSet
from proser_core.data.mirroring import SIZE, Mirroring, judge_mirroring
from proser_core.data.near_duplicates import NO_PAIRS, links_by_looks
from proser_core.data.photos import Photo, read_photos
from proser_core.data.readers.image_folders import FolderLayout, of_no_class
from proser_core.data.readers.listed_folder import Listed, Listing
from proser_core.errors import DataError

Progress = Callable[[int, int], None]
"""Called with the number of images that were read, and of all."""


@dataclass(frozen=True)
class Inspection:
    """The N images of a folder that can be read, in the order of their paths, and the files that cannot.

    `pairs` int64[P, 2] are near duplicates, none where nobody asked, and no more than link all that are, by themselves
    where they differ in class, else in part, or in neither; `groups` int64[N] are never divided.
    """

    root: Path
    listing: Listing
    files: list[Listed]
    photos: list[Photo]
    failures: list[Failure]
    pairs: np.ndarray
    groups: np.ndarray
    mirroring: Mirroring

    @property
    def labels(self) -> np.ndarray:
        """int64[N]: the class of each image."""
        return np.array([file.label for file in self.files], np.int64)

    @property
    def parts(self) -> np.ndarray:
        """str[N]: the part whose folder each image is in."""
        return np.array([file.part for file in self.files])

    def counts(self, part: str = "") -> np.ndarray:
        """int64[K]: images of each class, in all or in a part."""
        rows = self.parts == part if part else slice(None)
        return np.bincount(self.labels[rows], minlength=len(self.listing.class_names))


def inspect_folder(root: Path, grouping: Grouping, progress: Progress = lambda done, total: None) -> Inspection:
    """Read every image once. Raises DataError for a folder without classes of images or whose folders could mean two
    things, for a rule that does not fit, and where no image can be read."""
    layout = FolderLayout()
    if not root.is_dir() or not layout.is_present(root):
        state = "holds no folder of images" if root.is_dir() else "is not a folder"
        raise DataError(of_no_class(root) or f"{root} {state}; need {layout.needs}")
    listing = layout.listing(root)
    paths = [file.path for file in listing.files]
    found, looks = read_photos(paths, lambda done: progress(done, len(paths)))
    rows = [row for row, each in enumerate(found) if isinstance(each, Photo)]
    failures = [each for each in found if isinstance(each, Failure)]
    if not rows:
        raise DataError(f"no image below {root} can be read, of {len(found):,}; {failures[0].reason}")
    files = [listing.files[row] for row in rows]
    photos = [each for each in found if isinstance(each, Photo)]
    pairs = links_by_looks(looks, _kinds(files, photos)) if grouping.by_looks else NO_PAIRS
    groups = grouping.joined(pairs, [file.path for file in files], [file.folder for file in files], root)
    return Inspection(
        root=root,
        listing=listing,
        files=files,
        photos=photos,
        failures=failures,
        pairs=pairs,
        groups=groups,
        mirroring=_mirroring(files, looks.patterns, groups, listing.class_names),
    )


def _kinds(files: list[Listed], photos: list[Photo]) -> Callable[[np.ndarray], np.ndarray]:
    """What two images of a pair have: the same content, another class, another part, or neither."""
    digests, parts = (
        np.unique(each, return_inverse=True)[1]
        for each in ([photo.digest for photo in photos], [file.part for file in files])
    )
    labels = np.array([file.label for file in files])

    def kinds(pairs: np.ndarray) -> np.ndarray:
        same, alike, together = (np.equal(*each[pairs.T]) for each in (digests, labels, parts))
        return np.select([same, ~alike, ~together], [0, 1, 2], 3)

    return kinds


def _mirroring(
    files: list[Listed], patterns: np.ndarray, groups: np.ndarray, class_names: tuple[str, ...]
) -> Mirroring:
    """The judgement on mirror images of the part train, by the grey patterns uint8[N, SIZE * SIZE] that are at hand. A
    run draws validation and test images from it first, and may judge otherwise."""
    rows = np.array([file.part == "train" for file in files])
    grey = np.repeat(patterns[rows].reshape(-1, SIZE, SIZE, 1), 3, axis=-1)
    labels = np.array([file.label for file in files], np.int64)[rows]
    if not len(labels):
        return Mirroring(True, "not judged: no training image can be read")
    return judge_mirroring(ImageSet(grey, labels, class_names, groups[rows]), class_names, seed=0)
