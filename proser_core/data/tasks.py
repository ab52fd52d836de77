"""`OpenSetTask`: the images of one class split by role, ready to train on and to be scored.

A task is a folder of plain arrays that every process of a machine maps into memory, so that
the images are held once however many trials run.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proser_core.config import DataConfig, from_json, to_json
from proser_core.data.image_sets import ImageSet
from proser_core.data.sources import SOURCES, load_images
from proser_core.data.splits import ClassSplit, draw_split
from proser_core.errors import DataError
from proser_core.naming import look_up
from proser_core.rng import keyed_generator


@dataclass(frozen=True)
class Labelled:
    """Images uint8[N, H, W, 3] and targets int64[N]: 0..K-1 known, K unknown."""

    images: np.ndarray
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class OpenSetTask:
    """Training and validation images of known classes, development unknowns, and the test images.

    `test_classes` int64[N] holds the class id of every test image in its data set; the settings
    choose their unknown images by it. `mean` and `std` are per channel, of the training images
    in 0..1.
    """

    split: ClassSplit
    class_names: tuple[str, ...]
    train: Labelled
    val: Labelled
    development: Labelled
    test: Labelled
    test_classes: np.ndarray
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @property
    def num_known(self) -> int:
        """Number of known classes K; also the target of every unknown image."""
        return self.split.num_known

    def rows_of_setting(self, setting: int) -> np.ndarray:
        """Mask over the test images: the known ones and the unknown ones of a setting."""
        return np.isin(self.test_classes, self.split.known + self.split.unknown_in(setting))

    def save(self, folder: Path) -> None:
        """Write the arrays and a task.json into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("train", "val", "development", "test"):
            part: Labelled = getattr(self, name)
            np.save(folder / f"{name}_images.npy", part.images)
            np.save(folder / f"{name}_targets.npy", part.targets)
        np.save(folder / "test_classes.npy", self.test_classes)
        about = {
            "split": to_json(self.split),
            "class_names": self.class_names,
            "mean": self.mean,
            "std": self.std,
            "counts": {name: len(getattr(self, name)) for name in ("train", "val", "development", "test")},
        }
        (folder / "task.json").write_text(json.dumps(about, indent=1))

    @classmethod
    def load(cls, folder: Path) -> "OpenSetTask":
        """Map the arrays of `save` into memory, read only."""
        about = json.loads((folder / "task.json").read_text())

        def array(name: str) -> np.ndarray:
            return np.load(folder / f"{name}.npy", mmap_mode="r")

        def labelled(name: str) -> Labelled:
            return Labelled(array(f"{name}_images"), array(f"{name}_targets"))

        return cls(
            split=from_json(ClassSplit, about["split"]),
            class_names=tuple(about["class_names"]),
            train=labelled("train"),
            val=labelled("val"),
            development=labelled("development"),
            test=labelled("test"),
            test_classes=array("test_classes"),
            mean=tuple(about["mean"]),
            std=tuple(about["std"]),
        )


def make_task(config: DataConfig, data_dir: Path | None, seed: int) -> OpenSetTask:
    """Read the images and give each its role.

    Validation is stratified and drawn with `seed`; there are as many development unknowns as
    validation images. Raises DataError where images or classes are missing.
    """
    source = look_up("data set", config.name, SOURCES)
    split = draw_split(config, source.num_classes)
    size, download = config.image_size, config.download
    known = load_images(config.name, "train", data_dir, size=size, classes=split.known, download=download)
    tested = load_images(
        config.name, "test", data_dir, size=size, classes=split.known + split.unknown, download=download
    )
    targets = _targets(known.labels, split)
    val_rows = stratified_rows(targets, split.num_known, config.val_fraction, seed, known.class_names)
    train, val = known.select(~val_rows), known.select(val_rows)
    development = _development_images(config, split, data_dir, seed, count=len(val))
    mean, std = _channel_statistics(train.images)
    return OpenSetTask(
        split=split,
        class_names=tuple(known.class_names[class_id] for class_id in split.known),
        train=Labelled(train.images, targets[~val_rows]),
        val=Labelled(val.images, targets[val_rows]),
        development=Labelled(development, np.full(len(development), split.num_known)),
        test=Labelled(tested.images, _targets(tested.labels, split)),
        test_classes=tested.labels,
        mean=mean,
        std=std,
    )


def stratified_rows(
    targets: np.ndarray, num_known: int, fraction: float, seed: int, names: tuple[str, ...] = ()
) -> np.ndarray:
    """Mask of a stratified draw: `fraction` of each class, at least one image, never all.

    Raises DataError for a class with fewer than two images.
    """
    chosen = np.zeros(len(targets), dtype=bool)
    generator = keyed_generator(seed, "validation")
    for target in range(num_known):
        rows = generator.permutation(np.flatnonzero(targets == target))
        if len(rows) < 2:
            raise DataError(
                f"known class {target} has {len(rows)} training image(s); it needs at least 2, one to train on "
                "and one to calibrate with. Add images or leave the class out"
            )
        chosen[rows[: min(max(1, round(fraction * len(rows))), len(rows) - 1)]] = True
    return chosen


def _targets(class_ids: np.ndarray, split: ClassSplit) -> np.ndarray:
    """Class ids of the data set to 0..K-1, and K for every unknown one."""
    lookup = np.full(max(int(class_ids.max(initial=0)), *split.known) + 1, split.num_known, dtype=np.int64)
    lookup[list(split.known)] = np.arange(split.num_known)
    return lookup[class_ids]


def _development_images(
    config: DataConfig, split: ClassSplit, data_dir: Path | None, seed: int, count: int
) -> np.ndarray:
    """`count` images (or all, where there are fewer) of classes that are in no test setting."""
    size = config.image_size
    if split.development:
        pool: ImageSet = load_images(config.name, "train", data_dir, size=size, classes=split.development)
    else:
        pool = load_images(config.development, "train", data_dir, size=size, download=config.download)
    rows = keyed_generator(seed, "development").permutation(len(pool))[:count]
    return pool.images[np.sort(rows)]


def _channel_statistics(images: np.ndarray) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    pixels = images.reshape(-1, 3)
    counts = [np.bincount(pixels[:, channel], minlength=256) for channel in range(3)]
    levels = np.arange(256) / 255.0
    means = [float(count @ levels / len(pixels)) for count in counts]
    stds = [
        max(float(np.sqrt(count @ (levels - mean) ** 2 / len(pixels))), 1e-3)
        for count, mean in zip(counts, means, strict=True)
    ]
    return (means[0], means[1], means[2]), (stds[0], stds[1], stds[2])
