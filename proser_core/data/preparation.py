"""Images on disk to an `OpenSetTask`: class split, validation draw, development unknowns."""

from pathlib import Path

import numpy as np

from proser_core.config import DataConfig
from proser_core.data.sources import SOURCES, load_images
from proser_core.data.splits import ClassSplit, draw_split
from proser_core.data.tasks import Labelled, OpenSetTask
from proser_core.errors import DataError
from proser_core.naming import look_up
from proser_core.rng import keyed_generator


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
    names = tuple(known.class_names[class_id] for class_id in split.known)
    val_rows = stratified_rows(targets, names, config.val_fraction, seed)
    train, val = known.select(~val_rows), known.select(val_rows)
    development = _development_images(config, split, data_dir, seed, count=len(val))
    mean, std = _channel_statistics(train.images)
    return OpenSetTask(
        split=split,
        class_names=names,
        train=Labelled(train.images, targets[~val_rows]),
        val=Labelled(val.images, targets[val_rows]),
        development=Labelled(development, np.full(len(development), split.num_known)),
        test=Labelled(tested.images, _targets(tested.labels, split)),
        test_classes=tested.labels,
        mean=mean,
        std=std,
    )


def stratified_rows(targets: np.ndarray, names: tuple[str, ...], fraction: float, seed: int) -> np.ndarray:
    """Mask of a stratified draw: `fraction` of each class 0..len(names)-1, at least one image, never all.

    Raises DataError for a class with fewer than two images.
    """
    chosen = np.zeros(len(targets), dtype=bool)
    generator = keyed_generator(seed, "validation")
    for target, name in enumerate(names):
        rows = generator.permutation(np.flatnonzero(targets == target))
        if len(rows) < 2:
            raise DataError(
                f"known class {name!r} has {len(rows)} training image(s); it needs at least 2, one to train on "
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
        pool = load_images(
            config.name, "train", data_dir, size=size, classes=split.development, download=config.download
        )
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
