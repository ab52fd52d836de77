"""`OpenSetTask`: the images of one class split by role, ready to train on and to be scored.

A task is a folder of plain arrays that every process of a machine maps into memory. Where the images
do not fit there, the arrays say where each lies, and the task is handed what reads them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from proser_core.config import DataConfig, from_json, to_json
from proser_core.data.image_sets import ImageSource, image_size
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.stored import StoredImages
from proser_core.errors import DataError
from proser_core.naming import check_class_names
from proser_core.store.files import read_json, write_json
from proser_core.titles import counted

TASK_PARTS = ("train", "val", "development", "test")
SUMMARY = "task.json"
CONTENTS = "contents"
Channels = tuple[float, float, float]
OpenStream = Callable[[StoredImages], ImageSource]


@dataclass(frozen=True, eq=False)  # arrays have no one truth value
class Labelled:
    """Images uint8[N, H, W, 3], or what decodes them, and targets int64[N]: 0..K-1 known, K unknown. Embeddings
    float32[N, d] take the place of images where a backbone is frozen."""

    images: np.ndarray | ImageSource
    targets: np.ndarray

    def __post_init__(self) -> None:
        """Targets of another integer type become int64. Raises DataError for what is not one integer per image."""
        targets = np.asarray(self.targets)
        if targets.shape != (len(self.images),) or targets.dtype.kind not in "iu":
            raise DataError(
                f"{len(self.images)} images have targets {targets.dtype}{list(targets.shape)}; need one integer per "
                "image"
            )
        object.__setattr__(self, "targets", targets.astype(np.int64, copy=False))  # what the losses of torch take

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class TaskSummary:
    """A saved task without its arrays; `counts` are its images by part, `groups` those of known classes by part.
    `flip` is what `auto` means for them."""

    split: ClassSplit
    class_names: tuple[str, ...]
    mean: Channels
    std: Channels
    counts: dict[str, int]
    image_size: int
    notes: dict[str, str] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    flip: bool = True

    @classmethod
    def read(cls, folder: Path) -> "TaskSummary":
        """The summary of the task that was saved in `folder`."""
        return from_json(cls, read_json(folder / SUMMARY), str(folder / SUMMARY))


@dataclass(frozen=True, eq=False)  # arrays have no one truth value
class OpenSetTask:
    """Training and validation images of known classes, development unknowns, and the test images.

    `test_classes` int64[N] holds the class id of every test image in its data set; the settings
    choose their unknown images by it. `mean` and `std` are per channel, of the training images
    in 0..1. `notes` are what a reader of results must know of the images, by outlier set or other name. `groups` are
    the numbers of groups of own images of known classes, by part. `flip` is whether mirroring them is harmless.
    `contents` uint64[N] are digests of the files of validation images and development unknowns, where these are a
    user's own photos: the same at every image size.
    """

    split: ClassSplit
    class_names: tuple[str, ...]
    train: Labelled
    val: Labelled
    development: Labelled
    test: Labelled
    test_classes: np.ndarray
    mean: Channels
    std: Channels
    notes: dict[str, str] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    flip: bool = True
    contents: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Raises DataError for targets of no class."""
        known, unknown = (0, self.num_known - 1), (self.num_known, self.num_known)
        ranges = {"train": known, "val": known, "development": unknown, "test": (0, self.num_known)}
        for name, (lowest, highest) in ranges.items():
            targets = getattr(self, name).targets
            if len(targets) and not lowest <= np.min(targets) <= np.max(targets) <= highest:
                raise DataError(
                    f"targets of {name} run from {np.min(targets)} to {np.max(targets)}; need {lowest} to {highest} "
                    f"with {self.num_known} known classes"
                )
        self._check_names_and_classes()

    def _check_names_and_classes(self) -> None:
        """Raises DataError for names that are not one for each known class, or that no prediction could give, and for
        what is not a class id for each test image."""
        check_class_names(self.class_names)
        if len(self.class_names) != self.num_known:
            raise DataError(
                f"class_names has {counted(len(self.class_names), 'name')}; need {self.num_known}, one for each known "
                "class"
            )
        if (shape := np.shape(self.test_classes)) != (len(self.test),):
            raise DataError(
                f"test_classes has the shape {shape}; need {(len(self.test),)}, a class id for each test image"
            )

    @property
    def num_known(self) -> int:
        """Number of known classes K; also the target of every unknown image."""
        return self.split.num_known

    @property
    def image_size(self) -> int:
        """Height and width of every image in pixels."""
        return image_size(self.train.images)

    def augmented(self, data: DataConfig) -> DataConfig:
        """The data block, with what these images decide in the place of `auto`."""
        return data.decided(flip=self.flip)

    def save(self, folder: Path, unpacked: Path | None = None) -> None:
        """Write the arrays and a summary into `folder`; of encoded images, their places, which hold after `folder` has
        moved together with images in `unpacked`. Raises TypeError for images of another source."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in TASK_PARTS:
            part: Labelled = getattr(self, name)
            if isinstance(part.images, np.ndarray):
                np.save(folder / f"{name}_images.npy", part.images)
            elif isinstance(part.images, StoredImages):
                part.images.save(folder, name, unpacked)
            else:
                raise TypeError(
                    f"{name} images are {type(part.images).__name__}; need an array or StoredImages to save"
                )
            np.save(folder / f"{name}_targets.npy", part.targets)
        np.save(folder / "test_classes.npy", self.test_classes)
        if self.contents is not None:
            np.save(folder / f"{CONTENTS}.npy", self.contents)
        counts = {name: len(getattr(self, name)) for name in TASK_PARTS}
        summary = TaskSummary(
            split=self.split,
            class_names=self.class_names,
            mean=self.mean,
            std=self.std,
            counts=counts,
            image_size=self.image_size,
            notes=self.notes,
            groups=self.groups,
            flip=self.flip,
        )
        write_json(folder / SUMMARY, to_json(summary))

    @classmethod
    def load(cls, folder: Path, open_stream: OpenStream = lambda stored: stored) -> "OpenSetTask":
        """Map the arrays of `save` into memory, read only; `open_stream` is given encoded images to read them."""
        summary = TaskSummary.read(folder)

        def array(name: str) -> np.ndarray:
            return np.load(folder / f"{name}.npy", mmap_mode="r")

        def labelled(name: str) -> Labelled:
            if StoredImages.is_saved(folder, name):
                stored = StoredImages.load(folder, name, summary.image_size)
                return Labelled(open_stream(stored), array(f"{name}_targets"))
            return Labelled(array(f"{name}_images"), array(f"{name}_targets"))

        return cls(
            split=summary.split,
            class_names=summary.class_names,
            train=labelled("train"),
            val=labelled("val"),
            development=labelled("development"),
            test=labelled("test"),
            test_classes=array("test_classes"),
            mean=summary.mean,
            std=summary.std,
            notes=summary.notes,
            groups=summary.groups,
            flip=summary.flip,
            contents=array(CONTENTS) if (folder / f"{CONTENTS}.npy").is_file() else None,
        )
