"""The data sets by name, and where each is looked for.

A new data set is a `Source` here if it comes in a layout that is already read (Parquet as on
the Hugging Face Hub, torchvision's own folders); otherwise it also brings one reader function. `folder` is
a user's own: whatever classes and images its data directory holds.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from proser_core.data.image_sets import ImageSet
from proser_core.data.readers import digits, image_folders, parquet, tiny_imagenet, torchvision_roots
from proser_core.data.readers.places import Fingerprints, fingerprints_of
from proser_core.errors import ConfigError, DataError
from proser_core.naming import look_up

Part = Literal["train", "val", "test"]


class Published(Protocol):
    """A module that reads a data set in a layout of its own."""

    NEEDS: str
    """What it is made of, for people."""

    def is_present(self, root: Path) -> bool:
        """Whether the root holds it."""

    def fingerprints(self, root: Path) -> Fingerprints:
        """As `fingerprints` below."""

    def read(self, root: Path, part: str, *, size: int, classes: Collection[int] | None, count: int | None) -> ImageSet:
        """As `load_images`."""


PARTS: tuple[Part, ...] = ("train", "test")


@dataclass(frozen=True)
class Source:
    """A data set: its published counts (a user's own has none), and what its layouts call things."""

    name: str
    num_classes: int
    counts: dict[str, int]
    label_column: str = "label"
    torchvision_class: str = ""
    parquet_parts: Mapping[str, str] = field(default_factory=dict)
    """What the Hub calls a part, where that is not its name here."""
    published: Published | None = None
    """Reader of the layout that its authors gave it."""
    origin: str = ""
    """Where to get it, its size and its licence."""
    read_embedded: Callable[[Part, int], ImageSet] | None = field(default=None)

    def is_embedded(self) -> bool:
        """Whether the images come with an installed package and need no data directory."""
        return self.read_embedded is not None

    @property
    def is_own(self) -> bool:
        """Whether it is a user's own image folder."""
        return not self.num_classes


SOURCES = {
    source.name: source
    for source in (
        Source("digits", 10, {"train": digits.NUM_TRAIN, "test": digits.NUM_TEST}, read_embedded=digits.read),
        Source(
            "mnist",
            10,
            {"train": 60_000, "test": 10_000},
            torchvision_class="MNIST",
            origin="huggingface.co/datasets/ylecun/mnist, 18 MB, CC BY-SA 3.0 by its authors (that page says MIT)",
        ),
        Source(
            "svhn",
            10,
            {"train": 73_257, "test": 26_032},
            torchvision_class="SVHN",
            origin="ufldl.stanford.edu/housenumbers, 246 MB, for use that is not commercial",
        ),
        Source(
            "cifar10",
            10,
            {"train": 50_000, "test": 10_000},
            torchvision_class="CIFAR10",
            origin="huggingface.co/datasets/uoft-cs/cifar10, 144 MB, licence unknown",
        ),
        Source(
            "cifar100",
            100,
            {"train": 50_000, "test": 10_000},
            label_column="fine_label",
            torchvision_class="CIFAR100",
            origin="huggingface.co/datasets/uoft-cs/cifar100, 142 MB, licence unknown",
        ),
        Source(
            "tiny-imagenet",
            200,
            {"train": 100_000, "test": 10_000},
            parquet_parts={"test": "valid"},
            published=tiny_imagenet,
            origin="cs231n.stanford.edu/tiny-imagenet-200.zip, 248 MB, for research that is not commercial",
        ),
        Source("folder", 0, {}),
    )
}


def find_layout(source: Source, data_dir: Path | None) -> str:
    """Name of the layout in which `data_dir` holds the data set, or an empty string."""
    if source.is_embedded():
        return "embedded"
    if data_dir is None or not data_dir.is_dir():
        return ""
    if source.is_own:
        return "folder" if image_folders.is_present(data_dir) else ""
    if parquet.find_shards(data_dir / source.name, "train"):
        return "parquet"
    if source.torchvision_class and torchvision_roots.is_present(source.torchvision_class, data_dir):
        return "torchvision"
    if source.published is not None and source.published.is_present(data_dir):
        return "published"
    return ""


def needs(source: Source) -> str:
    """What a data directory holds of a data set, in any of its layouts, for people; nothing of an embedded one."""
    if source.is_embedded():
        return ""
    if source.is_own:
        return "a folder of images for each class (CLASS/*), or train/CLASS/* and test/CLASS/*"
    layouts = [" and ".join(f"{source.name}/{_parquet_part(source, part)}-*.parquet" for part in PARTS)]
    if source.torchvision_class:
        layouts.append(f"torchvision's {torchvision_roots.needs(source.torchvision_class)}")
    if source.published is not None:
        layouts.append(source.published.NEEDS)
    return ", or ".join(layouts)


def count_classes(name: str, data_dir: Path | None) -> int:
    """Classes of a data set; of a user's own, as many as there are. Raises DataError where it is not found."""
    source = look_up("data set", name, SOURCES)
    return len(image_folders.class_names(_own_root(source, data_dir))) if source.is_own else source.num_classes


def count_images(name: str, part: Part, data_dir: Path | None) -> int:
    """Images of a part of a data set, as published; of a user's own, as many as there are.

    Raises DataError where a user's own is not found.
    """
    source = look_up("data set", name, SOURCES)
    return len(image_folders.index(_own_root(source, data_dir), part, size=1)) if source.is_own else source.counts[part]


def has_own_validation(name: str, data_dir: Path | None) -> bool:
    """Whether a data set comes with validation images, so that none are drawn from the training images."""
    source = look_up("data set", name, SOURCES)
    return source.is_own and image_folders.has_part(_own_root(source, data_dir), "val")


def missing(name: str, data_dir: Path | None, *, download: bool = False) -> str:
    """Why a data set cannot be read, and what to do; empty where it is there, or torchvision can fetch it."""
    source = look_up("data set", name, SOURCES)
    found = find_layout(source, data_dir) or (download and source.torchvision_class)
    return "" if found else _missing(source, data_dir)


def fingerprints(name: str, data_dir: Path | None, *, download: bool = False) -> Fingerprints:
    """Name, bytes, and time of change of what a data set is read from; of folders of images, a digest each.

    Raises DataError where the data set is not found.
    """
    source = look_up("data set", name, SOURCES)
    if source.is_own:
        return [*image_folders.fingerprints(_own_root(source, data_dir))]
    if find_layout(source, data_dir) == "published":
        assert source.published is not None
        assert data_dir is not None
        return source.published.fingerprints(data_dir)
    return fingerprints_of(source_files(name, data_dir, download=download))


def source_files(name: str, data_dir: Path | None, *, download: bool = False) -> list[Path]:
    """The files that a data set is read from; none for an embedded one or one to be downloaded.

    Raises DataError where the data set is not found. Folders of images have `fingerprints` instead.
    """
    source = look_up("data set", name, SOURCES)
    layout = find_layout(source, data_dir)
    if layout == "parquet" and data_dir is not None:
        return parquet.find_shards(data_dir / name, "")
    if layout == "torchvision" and data_dir is not None:
        return torchvision_roots.files(source.torchvision_class, data_dir)
    if layout == "embedded" or (download and source.torchvision_class):
        return []
    raise DataError(_missing(source, data_dir))


def load_images(
    name: str,
    part: Part,
    data_dir: Path | None,
    *,
    size: int,
    classes: Collection[int] | None = None,
    download: bool = False,
) -> ImageSet:
    """Images of a data set's part, `size` pixels square, of the given class ids (default: all).

    Raises DataError where the images are missing, unreadable or not as many as published.
    """
    source = look_up("data set", name, SOURCES)
    if source.read_embedded is not None:
        embedded = source.read_embedded(part, size)
        return embedded if classes is None else embedded.select(np.isin(embedded.labels, list(classes)))
    if source.is_own:
        return image_folders.read(_own_root(source, data_dir), part, size=size, classes=classes)
    layout = find_layout(source, data_dir)
    if not layout and download and source.torchvision_class:
        data_dir, layout = data_dir or Path("data"), "torchvision"
    if not layout or data_dir is None:
        raise DataError(_missing(source, data_dir))
    options: dict[str, Any] = {"size": size, "classes": classes, "count": source.counts[part]}
    if layout == "parquet":
        loaded = parquet.read(data_dir / name, _parquet_part(source, part), source.label_column, **options)
    elif layout == "published":
        assert source.published is not None
        loaded = source.published.read(data_dir, part, **options)
    else:
        loaded = torchvision_roots.read(source.torchvision_class, data_dir, part, download=download, **options)
    return _with_all_classes(loaded, source, data_dir)


def check_streamed(name: str, data_dir: Path | None) -> None:
    """Raises ConfigError for a data set whose images cannot be read one by one where they lie."""
    layout = find_layout(look_up("data set", name, SOURCES), data_dir)
    if layout in ("embedded", "torchvision", "published"):
        raise ConfigError(
            f"data.streaming is on, and {name} is there in the layout {layout}; it streams Parquet files and image "
            "folders. Leave it off: the images fit into memory"
        )


def unpacked_files(name: str, data_dir: Path | None) -> list[Path]:
    """The files of a data set that `unpack` has to take apart before single images can be read; none of a folder."""
    return [] if look_up("data set", name, SOURCES).is_own else source_files(name, data_dir)


def index_images(
    name: str,
    part: Part,
    data_dir: Path | None,
    *,
    size: int,
    classes: Collection[int] | None = None,
    unpacked: Mapping[str, Path],
) -> ImageSet:
    """As `load_images`, with the images left encoded on disk.

    `unpacked` is by data set the folder into which its `unpacked_files` were unpacked.
    """
    source = look_up("data set", name, SOURCES)
    if source.is_own:
        return image_folders.index(_own_root(source, data_dir), part, size=size, classes=classes)
    if data_dir is None:
        raise DataError(_missing(source, data_dir))
    options: dict[str, Any] = {"size": size, "classes": classes, "count": source.counts[part]}
    shards = _parquet_part(source, part)
    found = parquet.index(data_dir / name, shards, source.label_column, unpacked=unpacked[name], **options)
    return _with_all_classes(found, source, data_dir)


def _with_all_classes(found: ImageSet, source: Source, data_dir: Path) -> ImageSet:
    if len(found.class_names) != source.num_classes:
        raise DataError(
            f"{data_dir} names {len(found.class_names)} classes of {source.name}; the data set has {source.num_classes}"
        )
    return found


def _parquet_part(source: Source, part: Part) -> str:
    return source.parquet_parts.get(part, part)


def _own_root(source: Source, data_dir: Path | None) -> Path:
    if data_dir is None or not find_layout(source, data_dir):
        raise DataError(_missing(source, data_dir))
    return data_dir


def _missing(source: Source, data_dir: Path | None) -> str:
    if data_dir is None:
        state = "no data directory was given"
    elif not data_dir.is_dir():
        state = f"the data directory {data_dir} does not exist"
    elif not any(data_dir.iterdir()):
        state = f"the data directory {data_dir} is empty"
    else:
        state = f"the data directory {data_dir} does not hold it"
    fetch = f", or let torchvision fetch it ({torchvision_roots.DOWNLOAD})" if source.torchvision_class else ""
    origin = f"It is to be had at {source.origin}. " if source.origin else ""
    return (
        f"{source.name} was not found: {state}; need {needs(source)} in it. {origin}"
        f"Give its directory (--data-dir, or data_dir in JOB.json){fetch}"
    )
