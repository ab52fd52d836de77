"""`DataSet`: a data set of the catalogue, as a data directory holds it."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from proser_core.data.catalogue import SOURCES, Source
from proser_core.data.grouping import UNGROUPED, Grouping
from proser_core.data.image_sets import ImageSet
from proser_core.data.readers.fingerprints import Fingerprints
from proser_core.data.readers.image_folders import FolderLayout, of_no_class
from proser_core.data.readers.layout import Layout, Part
from proser_core.data.readers.listed_folder import ListedFolder, Listing
from proser_core.data.readers.parquet import ParquetLayout
from proser_core.data.readers.torchvision_roots import DOWNLOAD, TorchvisionLayout
from proser_core.errors import ConfigError, DataError

DOWNLOADED = Path("data")  # where torchvision puts data sets if no data directory is given
Streamed = ParquetLayout | FolderLayout
DataRoot = Path | ListedFolder | None
"""A data directory; a `ListedFolder` where a user's own images are to be listed once for all that is opened in it."""


def listed_once(data_dir: DataRoot) -> ListedFolder | None:
    """A data directory in which a user's own images are listed once; nothing is read yet."""
    return ListedFolder(data_dir) if isinstance(data_dir, Path) else data_dir


def path_of(data_dir: DataRoot) -> Path | None:
    """The directory itself; None where none was given."""
    return data_dir.root if isinstance(data_dir, ListedFolder) else data_dir


def open_data_set(
    name: str, data_dir: DataRoot, *, download: bool = False, grouping: Grouping = UNGROUPED
) -> "DataSet":
    """The data set `name` in the layout in which `data_dir` holds it; with `download`, torchvision may fetch it. Parts
    that are drawn from folders of images are drawn by `grouping`.

    Nothing is read yet, and `missing` says whether anything is there. Raises ConfigError for an unknown name.
    """
    source = SOURCES[name]
    root, own = path_of(data_dir), FolderLayout(grouping, listed_once(data_dir))
    layouts = [own if isinstance(each, FolderLayout) else each for each in source.layouts]
    found = next((each for each in layouts if not each.needs or (root and each.is_present(root))), None)
    fetched = next((each for each in source.layouts if isinstance(each, TorchvisionLayout) and download), None)
    layout = found or fetched
    if isinstance(layout, TorchvisionLayout):
        layout = replace(layout, download=download)
    return DataSet(source, root, layout)


@dataclass(frozen=True)
class DataSet:
    """A data set of the catalogue in a data directory.

    `layout` is None where it is missing. What reads files raises DataError where they are missing or damaged.
    """

    source: Source
    data_dir: Path | None
    layout: Layout | None

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def num_classes(self) -> int:
        if self.source.num_classes:
            return self.source.num_classes
        layout, root = self._folder()
        return len(layout.class_names(root))

    def num_images(self, part: Part) -> int:
        """Number of images of a part, as published; of a user's own, as many as there are if each is a group."""
        if self.source.counts:
            return self.source.counts[part]
        layout, root = self._folder()
        return len(replace(layout, grouping=UNGROUPED).index(root, part, size=1))

    def class_counts(self) -> np.ndarray:
        """int64[K]: files of each class of a user's own, over all parts."""
        listing = self.listing()
        return np.bincount([file.label for file in listing.files], minlength=len(listing.class_names))

    @property
    def drawn_parts(self) -> tuple[str, ...]:
        """The parts that are drawn from its training images."""
        if self.source.counts:
            return ("val",)
        layout, root = self._folder()
        return layout.drawn(root)

    @property
    def missing(self) -> str:
        """Why it cannot be read, and what to do; empty where it is there, or torchvision can fetch it."""
        if self.layout is not None:
            return ""
        if self.name == "folder" and self.data_dir and (flat := of_no_class(self.data_dir)):
            return flat
        can_fetch = any(isinstance(layout, TorchvisionLayout) for layout in self.source.layouts)
        fetch = f", or let torchvision fetch it ({DOWNLOAD})" if can_fetch else ""
        name, it = ("your own images were", "them") if self.name == "folder" else (f"{self.name} was", "it")
        origin = f"Download it from {self.source.origin}. " if self.source.origin else ""
        return (
            f"{name} not found: {state_of(self.data_dir, it)}; need {self.source.needs} in it. {origin}"
            f"Give the directory with --data-dir (in a job file: data_dir){fetch}"
        )

    def fingerprints(self) -> Fingerprints:
        """What tells changed files from unchanged ones; nothing of files that torchvision fetches."""
        layout, root = self._opened()
        return layout.fingerprints(root)

    def load(self, part: Part, *, size: int, classes: Collection[int] | None = None) -> ImageSet:
        """Images of a part, `size` pixels square, of the given class ids (default: all)."""
        layout, root = self._opened()
        return self._checked(layout.read(root, part, size=size, classes=classes, count=self.source.counts.get(part)))

    def index(
        self, part: Part, *, size: int, classes: Collection[int] | None = None, unpacked: Path | None = None
    ) -> ImageSet:
        """As `load`, with the images left on disk; `unpacked` is where `packed_files` were unpacked, or the photos of a
        folder decoded."""
        layout, root = self._streamed()
        if isinstance(layout, FolderLayout):
            return layout.index(root, part, size=size, classes=classes, decoded=unpacked)
        assert unpacked is not None, "images in Parquet files are unpacked before they are indexed"
        count = self.source.counts.get(part)
        return self._checked(layout.index(root, part, unpacked, size=size, classes=classes, count=count))

    def listing(self) -> Listing:
        """All files of a user's own images."""
        layout, root = self._folder()
        return layout.listing(root)

    def packed_files(self) -> list[Path]:
        """The files to unpack before single images can be read; none of an image folder.

        Raises ConfigError for a layout that is not streamed.
        """
        layout, root = self._streamed()
        return layout.packed_files(root) if isinstance(layout, ParquetLayout) else []

    def _opened(self) -> tuple[Layout, Path]:
        if self.layout is None:
            raise DataError(self.missing)
        return self.layout, self.data_dir or DOWNLOADED

    def _folder(self) -> tuple[FolderLayout, Path]:
        layout, root = self._opened()
        assert isinstance(layout, FolderLayout), "all other data sets have published numbers"
        return layout, root

    def _streamed(self) -> tuple[Streamed, Path]:
        layout, root = self._opened()
        if not isinstance(layout, Streamed):
            raise ConfigError(
                f"data.streaming is on, and {self.name} has the layout {layout.name}; only Parquet files and "
                "image folders are streamed. Give --data.no-streaming: the images fit into memory"
            )
        return layout, root

    def _checked(self, images: ImageSet) -> ImageSet:
        expected = self.source.num_classes or len(images.class_names)
        if len(images.class_names) != expected:
            raise DataError(
                f"{self.data_dir} names {len(images.class_names)} classes of {self.name}; the data set has {expected}"
            )
        return images


def state_of(data_dir: Path | None, it: str) -> str:
    """Why a data directory does not hold `it`, a data set, for people."""
    if data_dir is None:
        return "no data directory was given"
    if not data_dir.is_dir():
        return f"the data directory {data_dir} {'is a file' if data_dir.exists() else 'does not exist'}"
    if not any(data_dir.iterdir()):
        return f"the data directory {data_dir} is empty"
    return f"the data directory {data_dir} does not hold {it}"
