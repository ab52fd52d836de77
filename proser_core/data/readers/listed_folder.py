"""A user's own images as they lie in their folders, listed once, and which of them are kept for the test.

Without test/ a fifth of each class's images is kept for it, by whole groups with a `Grouping`. What is hidden, or has
none of ENDINGS, is not an image.
"""

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from proser_core.data.decoding import EMPTY, undecodable
from proser_core.data.grouping import Grouping
from proser_core.data.readers.fingerprints import FileStatus, status_of
from proser_core.data.readers.walking import ENDINGS, OTHER_ENDINGS, files_below
from proser_core.data.splits.grouped_draw import draw_rows
from proser_core.errors import DataError
from proser_core.naming import as_spelt
from proser_core.store.files import absolute
from proser_core.titles import counted

FOLDER_PARTS = ("train", "val", "test")
PART_LIKE = ("train", "training", "val", "valid", "validation", "test", "testing")  # what others call them
TEST_SHARE = 5  # one of so many images is kept for the test where there is no test/
LOOKED_AT = 1000  # files of a folder at which a first look for images ends


class Listed(NamedTuple):
    """An image file: its path, the folder of its class, the number of that, and the part whose folder it is in."""

    path: str
    folder: Path
    label: int
    part: str


@dataclass(frozen=True)
class Listing:
    """All image files of all classes as they lie, which of FOLDER_PARTS are drawn from those of the training, and paths
    of images that a run takes no notice of: of formats that are not read, or in the folder of no class."""

    class_names: tuple[str, ...]
    files: list[Listed]
    drawn: tuple[str, ...]
    unread: list[str] = field(default_factory=list)

    @property
    def least(self) -> int:
        """Training images, and groups, from which a class gets one in training and in each part that is drawn."""
        return 1 + len(self.drawn)


@dataclass(frozen=True)
class ListedFolder:
    """A user's own images below `root`. A folder is listed, and its files looked at, when they are first asked for and
    then no more: a command hands one down, since a walk over a million files of a network drive takes minutes."""

    root: Path
    _paths: dict[Path, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _unread: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    _images: dict[Path, list[FileStatus]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _grouped: dict[tuple[Grouping, Path | None], "Grouped"] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def holds_images(self) -> bool:
        """Whether a folder has images. Where the first files of each are none, all are looked at, before images are
        said to be missing."""
        folders = [self.root / name for name in _subfolders(self.root)]
        return any(_holds_image(folder, most) for most in (LOOKED_AT, None) for folder in folders)

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """The classes by number. Raises DataError as `parts`."""
        return tuple(_subfolders(self.parts["train"]))

    @cached_property
    def parts(self) -> dict[str, Path]:
        """The folder of each part; without train/ the root itself is that of the training. Raises DataError for folders
        that could mean two things, and parts with different classes."""
        root = self.root
        folders = {name: _subfolders(root / name) for name in FOLDER_PARTS}
        if not folders["train"]:
            for name in _subfolders(root):
                if name in FOLDER_PARTS or (name.lower() in PART_LIKE and _subfolders(root / name)):
                    raise DataError(
                        f"{root} has a folder {name}/ and no train/CLASS/ that goes with it; name the folders train/, "
                        "val/ and test/, with one for each class in them, or give a folder for each class and none "
                        "with that name"
                    )
            return {"train": root}
        others = [name for name in _subfolders(root) if name not in FOLDER_PARTS and _holds_image(root / name)]
        if others:
            raise DataError(
                f"{root} has train/ with classes, and also {others[0]}/ with images; only val/ and test/ are read "
                "there. Rename or move it, or, if train is a class, rename that"
            )
        for part in FOLDER_PARTS[1:]:
            if not folders[part] and _holds_image(root / part):
                raise DataError(
                    f"{root}/{part} has images and no folder of a class, and would not be read; put them into a folder "
                    "for each class there, or move them"
                )
        for part in filter(folders.get, FOLDER_PARTS[1:]):
            for name in sorted({*folders[part]} ^ {*folders["train"]}):
                has, lacks = ("train", part) if name in folders["train"] else (part, "train")
                if (other := as_spelt(name, folders[lacks])) != name:
                    raise DataError(
                        f"{root} has {has}/{name} and {lacks}/{other}, which differ only in how accents are stored "
                        "(Unicode NFC or NFD); rename one as the other"
                    )
                raise DataError(
                    f"{root} has {has}/{name} and no {lacks}/{name}; every class needs images of its own in each part"
                )
        return {part: root / part for part in FOLDER_PARTS if folders[part]}

    @cached_property
    def _top(self) -> str:
        """The root as the paths of its images have it."""
        return absolute(self.root)

    @property
    def drawn(self) -> tuple[str, ...]:
        """The parts without a folder, for which some of the training images are drawn."""
        return tuple(part for part in FOLDER_PARTS[1:] if part not in self.parts)

    def paths(self, folder: Path) -> list[str]:
        """All images below the folder of a class, whatever is in them. Raises DataError for one that cannot be read."""
        if folder not in self._paths:
            images = []
            for file in files_below(absolute(folder)):
                if file.name.lower().endswith(ENDINGS):
                    images.append(file.path)
                elif file.name.lower().endswith(OTHER_ENDINGS):
                    self._unread.append(file.path)
            self._paths[folder] = images
        return self._paths[folder]

    def unread(self) -> list[str]:
        """The `unread` of a `Listing`, once all classes are listed."""
        beside = [
            os.path.join(absolute(folder), name)
            for folder in {self.root, *self.parts.values()}
            for name in os.listdir(folder)
            if name.lower().endswith((*ENDINGS, *OTHER_ENDINGS)) and not name.startswith(".")
        ]
        return sorted([*self._unread, *(path for path in beside if not os.path.isdir(path))])

    def _others(self, folder: Path) -> str:
        """What to add of the folder of a class that is listed: how many images it has that are not read."""
        inside = os.path.join(absolute(folder), "")
        count = sum(path.startswith(inside) for path in self._unread)
        return f", and {count} of formats that are not read (convert them to JPEG or PNG)" if count else ""

    def _statuses(self, folder: Path) -> list[FileStatus]:
        """The files of a folder in the order of their paths. Raises DataError where there is none, or one is a broken
        link or empty."""
        if folder in self._images:
            return self._images[folder]
        paths = self.paths(folder)
        if not paths:
            raise DataError(
                f"{folder} holds no image ({', '.join(ENDINGS)}){self._others(folder)}; add some, or remove the class "
                "from every part"
            )
        found = [status_of(path) for path in paths]
        for path, size, _ in found:
            if not size:
                raise undecodable(path, EMPTY)
        return self._images.setdefault(folder, found)

    def grouped(self, grouping: Grouping, decoded: Path | None) -> "Grouped":
        """All images of all classes, with the part that each is drawn for, so that no group is divided."""
        if (grouping, decoded) not in self._grouped:
            self._grouped[grouping, decoded] = self._divided(grouping, decoded)
        return self._grouped[grouping, decoded]

    def _divided(self, grouping: Grouping, decoded: Path | None) -> "Grouped":
        own = [part for part in FOLDER_PARTS if part in self.parts]
        found = [
            (part, label, image)
            for part in own
            for label, name in enumerate(self.class_names)
            for image in self.images(part, name)
        ]
        parts = np.array([part for part, _, _ in found])
        labels = np.array([label for _, label, _ in found], np.int64)
        files = [image for _, _, image in found]
        folders = [self.parts[part] / self.class_names[label] for part, label, _ in found]
        groups = grouping.groups(files, folders, self.root, decoded)
        if "test" not in self.parts:
            parts[self._drawn(parts == "train", labels, groups, files)] = "test"
        return Grouped(parts, labels, groups, [path for path, _, _ in files])

    def images(self, part: str, name: str) -> list[FileStatus]:
        """The images in the folder of a part that has one, in the order of their paths. Raises DataError where there
        are too few."""
        folder = self.parts[part] / name
        images = self._statuses(folder)
        least = 1 + len(self.drawn)
        if "test" not in self.parts and part == "train" and len(images) < least:
            raise DataError(
                f"{folder} holds {counted(len(images), 'image')}{self._others(folder)}; a class needs {least} or more, "
                f"to train and to draw {' and '.join(self.drawn)} images. Add some, or remove the folder"
            )
        return images

    def _drawn(
        self, pool: np.ndarray, labels: np.ndarray, groups: np.ndarray, files: Sequence[FileStatus]
    ) -> np.ndarray:
        """Rows of the pool that are kept for the test."""
        rows = np.flatnonzero(pool)
        digests = [self._digest(files[row]) for row in rows.tolist()]
        ranks = np.argsort(np.argsort(digests))
        quotas = np.maximum(1, np.bincount(labels[rows], minlength=len(self.class_names)) // TEST_SHARE)
        left = len(self.drawn)  # one to train on, and one to draw for validation
        return rows[draw_rows(labels[rows], groups[rows], ranks, quotas, left=left)]

    def _digest(self, image: FileStatus) -> str:
        """A digest by which test images are drawn: it depends on the path below the root alone, so that a draw hardly
        changes when images are added."""
        return hashlib.sha256(os.path.relpath(image[0], self._top).encode(errors="surrogateescape")).hexdigest()


@dataclass(frozen=True)
class Grouped:
    """Parts [N], labels and groups int64[N] and paths of all images of all classes."""

    parts: np.ndarray
    labels: np.ndarray
    groups: np.ndarray
    paths: list[str]


def _subfolders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _holds_image(folder: Path, most: int | None = LOOKED_AT) -> bool:
    """Whether there is an image among its first files."""
    return any(name.endswith(ENDINGS) for name in _first_names(folder, most))


def unread_endings(folder: Path) -> list[str]:
    """Endings of images of formats that are not read, among its first files."""
    return sorted({ending for name in _first_names(folder) for ending in OTHER_ENDINGS if name.endswith(ending)})


def _first_names(folder: Path, most: int | None = LOOKED_AT) -> Iterator[str]:
    """Names of its first files, or of all, in lower case; none of a folder that cannot be read."""
    with suppress(DataError):
        for file in itertools.islice(files_below(absolute(folder)), most):
            yield file.name.lower()
