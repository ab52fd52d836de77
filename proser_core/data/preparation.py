"""Images on disk to an `OpenSetTask`: class split, validation draw, development unknowns."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from proser_core.class_names import check_class_names
from proser_core.config import DataConfig
from proser_core.data.catalogue import count_classes, has_own_validation, index_images, load_images
from proser_core.data.image_sets import ImageSet, ImageSource
from proser_core.data.outliers.outlier_sets import check_outliers, load_outliers, outlier_notes
from proser_core.data.splits.class_split import ClassSplit, draw_split
from proser_core.data.stored import StoredImages
from proser_core.data.tasks import Labelled, OpenSetTask
from proser_core.errors import DataError
from proser_core.rng import keyed_generator

DECODED_AT_ONCE = 256  # images


def make_task(
    config: DataConfig, data_dir: Path | None, seed: int, unpacked: Mapping[str, Path] | None = None
) -> OpenSetTask:
    """Read the images and give each its role.

    Validation is stratified and drawn with `seed`, unless the data set brings its own; there are as many
    development unknowns as validation images. With `unpacked` (see `index_images`) the images stay encoded on
    disk; each is decoded here once, so that none fails later. Raises DataError where images or classes are missing.
    """
    split = split_of(config, data_dir)
    read = partial(load_images, data_dir=data_dir, size=config.image_size, download=config.download)
    if unpacked is not None:
        read = partial(index_images, data_dir=data_dir, size=config.image_size, unpacked=unpacked)
    known = read(config.name, "train", classes=split.known)
    tested = _test_images(config, split, read, data_dir)
    names = tuple(known.class_names[class_id] for class_id in split.known)
    check_class_names(names)
    if has_own_validation(config.name, data_dir):
        train, val = known, read(config.name, "val", classes=split.known)
    else:
        val_rows = stratified_rows(_targets(known.labels, split), names, config.val_fraction, seed)
        train, val = known.select(~val_rows), known.select(val_rows)
    development = known.select(np.zeros(0, np.int64)).images
    if config.has_development:
        development = _development_images(config, split, read, seed, count=len(val))
    mean, std = _channel_statistics(train.images)
    for images in (val.images, development, tested.images):
        if not isinstance(images, np.ndarray):
            for _ in _chunks(images):
                pass
    return OpenSetTask(
        split=split,
        class_names=names,
        train=Labelled(train.images, _targets(train.labels, split)),
        val=Labelled(val.images, _targets(val.labels, split)),
        development=Labelled(development, np.full(len(development), split.num_known)),
        test=Labelled(tested.images, _targets(tested.labels, split)),
        test_classes=tested.labels,
        mean=mean,
        std=std,
        notes=outlier_notes(config.outliers, data_dir),
    )


def split_of(config: DataConfig, data_dir: Path | None) -> ClassSplit:
    """The class split of a recipe's data.

    Raises DataError for a data set that is not found, or too small, ConfigError for an outlier set that does not fit.
    """
    check_outliers(config)
    foreign = count_classes(config.unknown, data_dir) if config.unknown else 0
    return draw_split(config, count_classes(config.name, data_dir), foreign)


def _test_images(
    config: DataConfig, split: ClassSplit, read: Callable[..., ImageSet], data_dir: Path | None
) -> ImageSet:
    """Of known and unknown classes; those of another data set, or of outlier sets, follow, with labels from the number
    of classes on."""
    if not (config.unknown or config.outliers):
        return read(config.name, "test", classes=split.known + split.unknown)
    known = read(config.name, "test", classes=split.known)
    num_classes = len(known.class_names)
    if config.outliers:
        options: dict[str, Any] = {"size": config.image_size, "count": len(known)}
        sets = [load_outliers(name, data_dir, **options) for name in config.outliers]
        labels = np.repeat(np.arange(len(sets)), len(known))
        foreign = ImageSet(np.concatenate(sets), labels, config.outliers)
    else:
        foreign = read(config.unknown, "test", classes=[number - num_classes for number in split.unknown])
    assert isinstance(known.images, np.ndarray)  # the recipe refuses to stream two data sets
    assert isinstance(foreign.images, np.ndarray)
    return ImageSet(
        images=np.concatenate([known.images, foreign.images]),
        labels=np.concatenate([known.labels, num_classes + foreign.labels]),
        class_names=known.class_names + foreign.class_names,
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
    config: DataConfig, split: ClassSplit, read: Callable[..., ImageSet], seed: int, count: int
) -> np.ndarray | StoredImages:
    """`count` images (or all, where there are fewer) of classes that are in no test setting."""
    if split.development:
        pool = read(config.name, "train", classes=split.development)
    else:
        pool = read(config.development, "train")
    rows = keyed_generator(seed, "development").permutation(len(pool))[:count]
    return pool.images[np.sort(rows)]


def _channel_statistics(
    images: np.ndarray | ImageSource,
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    counts, levels = np.zeros((3, 256), np.int64), np.arange(256) / 255.0
    for chunk in _chunks(images):
        for channel in range(3):
            counts[channel] += np.bincount(chunk[..., channel].ravel(), minlength=256)
    total = int(counts[0].sum())
    means = [float(count @ levels / total) for count in counts]
    stds = [
        max(float(np.sqrt(count @ (levels - mean) ** 2 / total)), 1e-3)
        for count, mean in zip(counts, means, strict=True)
    ]
    return (means[0], means[1], means[2]), (stds[0], stds[1], stds[2])


def _chunks(images: np.ndarray | ImageSource) -> Iterator[np.ndarray]:
    """All images, in memory at once or a few at a time."""
    if isinstance(images, np.ndarray):
        yield images
    else:
        yield from images.batches(np.arange(len(images)), DECODED_AT_ONCE)
