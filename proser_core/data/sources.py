"""The data sets by name, and where each is looked for.

A new data set is a `Source` here if it comes in a layout that is already read (Parquet as on
the Hugging Face Hub, torchvision's own folders); otherwise it also brings one reader function.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from proser_core.data import digits, parquet, torchvision_roots
from proser_core.data.image_sets import ImageSet
from proser_core.errors import DataError
from proser_core.naming import look_up

Part = Literal["train", "test"]


@dataclass(frozen=True)
class Source:
    """A data set: its published counts, and what its layouts call things."""

    name: str
    num_classes: int
    counts: dict[str, int]
    label_column: str = "label"
    torchvision_class: str = ""
    read_embedded: Callable[[Part, int], ImageSet] | None = field(default=None)

    def is_embedded(self) -> bool:
        """Whether the images come with an installed package and need no data directory."""
        return self.read_embedded is not None


SOURCES = {
    source.name: source
    for source in (
        Source("digits", 10, {"train": digits.NUM_TRAIN, "test": digits.NUM_TEST}, read_embedded=digits.read),
        Source("cifar10", 10, {"train": 50_000, "test": 10_000}, torchvision_class="CIFAR10"),
        Source(
            "cifar100",
            100,
            {"train": 50_000, "test": 10_000},
            label_column="fine_label",
            torchvision_class="CIFAR100",
        ),
    )
}


def find_layout(source: Source, data_dir: Path | None) -> str:
    """Name of the layout in which `data_dir` holds the data set, or an empty string."""
    if source.is_embedded():
        return "embedded"
    if data_dir is None or not data_dir.is_dir():
        return ""
    if parquet.find_shards(data_dir / source.name, "train"):
        return "parquet"
    if source.torchvision_class and torchvision_roots.is_present(source.torchvision_class, data_dir):
        return "torchvision"
    return ""


def source_files(name: str, data_dir: Path | None, *, download: bool = False) -> list[Path]:
    """The files that a data set is read from; none for an embedded one or one to be downloaded.

    Raises DataError where the data set is not found.
    """
    source = look_up("data set", name, SOURCES)
    layout = find_layout(source, data_dir)
    if layout == "parquet" and data_dir is not None:
        return parquet.find_shards(data_dir / name, "")
    if layout == "torchvision" and data_dir is not None:
        folder = data_dir / torchvision_roots.folder(source.torchvision_class)
        return sorted(path for path in folder.iterdir() if path.is_file())
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
    layout = find_layout(source, data_dir)
    if not layout and download and source.torchvision_class:
        data_dir, layout = data_dir or Path("data"), "torchvision"
    if not layout or data_dir is None:
        raise DataError(_missing(source, data_dir))
    options: dict[str, Any] = {"size": size, "classes": classes, "count": source.counts[part]}
    if layout == "parquet":
        loaded = parquet.read(data_dir / name, part, source.label_column, **options)
    else:
        loaded = torchvision_roots.read(source.torchvision_class, data_dir, part, download=download, **options)
    if len(loaded.class_names) != source.num_classes:
        raise DataError(
            f"{data_dir} names {len(loaded.class_names)} classes of {name}; the data set has {source.num_classes}"
        )
    return loaded


def _missing(source: Source, data_dir: Path | None) -> str:
    if data_dir is None:
        state = "no data directory was given"
    elif not data_dir.is_dir():
        state = f"the data directory {data_dir} does not exist"
    elif not any(data_dir.iterdir()):
        state = f"the data directory {data_dir} is empty"
    else:
        state = f"the data directory {data_dir} does not hold it"
    layouts = f"{source.name}/train-*.parquet and {source.name}/test-*.parquet"
    if source.torchvision_class:
        layouts += f", or torchvision's {torchvision_roots.folder(source.torchvision_class)}/"
    return (
        f"{source.name} was not found: {state}; need {layouts} in it. "
        "Give its directory (--data-dir, or data_dir in JOB.json), or let torchvision fetch it (data.download)"
    )
