"""Images on disk to an `OpenSetTask`: class split, validation draw, development unknowns."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proser_core.config import DataConfig
from proser_core.data.data_sets import DataSet, open_data_set
from proser_core.data.image_sets import ImageSet, ImageSource, chunks
from proser_core.data.outliers.outlier_sets import check_outliers, open_outlier_set, outlier_notes
from proser_core.data.readers.layout import Part
from proser_core.data.repeats import Repeats
from proser_core.data.splits.class_split import ClassSplit, draw_split
from proser_core.data.stored import StoredImages
from proser_core.data.tasks import Channels, Labelled, OpenSetTask
from proser_core.errors import DataError
from proser_core.naming import check_class_names
from proser_core.rng import keyed_generator


def make_task(
    config: DataConfig, data_dir: Path | None = None, seed: int = 0, unpacked: Mapping[str, Path] | None = None
) -> OpenSetTask:
    """Read the images and give each its role.

    Validation is stratified and drawn with `seed`, unless the data set has its own; there are as many
    development unknowns as validation images. With `unpacked`, which has folders of `DataSet.index` by data set, the
    images stay encoded on disk. Raises DataError where images or classes are missing, or an image cannot be decoded.
    """
    images = _Images(config, open_data_sets(config, data_dir), data_dir, unpacked)
    split = split_of(config, data_dir)
    known = images.read(config.name, "train", split.known)
    names = tuple(known.class_names[class_id] for class_id in split.known)
    check_class_names(names)
    tested = images.tested(split)
    if images.data_sets[config.name].has_own_validation:
        train, val = known, images.read(config.name, "val", split.known)
    else:
        val_rows = stratified_rows(_targets(known.labels, split), names, config.val_fraction, seed)
        train, val = known.select(~val_rows), known.select(val_rows)
    development = (
        images.development(split, seed, count=len(val))
        if config.has_development
        else known.images[np.zeros(0, np.int64)]
    )
    return assemble(
        split,
        names,
        train=Labelled(train.images, _targets(train.labels, split)),
        val=Labelled(val.images, _targets(val.labels, split)),
        development=development,
        test=Labelled(tested.images, _targets(tested.labels, split)),
        test_classes=tested.labels,
        notes=outlier_notes(config.outliers, data_dir),
        normalisation=config.normalisation,
    )


def assemble(
    split: ClassSplit,
    class_names: tuple[str, ...],
    *,
    train: Labelled,
    val: Labelled,
    development: np.ndarray | ImageSource,
    test: Labelled,
    test_classes: np.ndarray,
    notes: Mapping[str, str] | None = None,
    normalisation: Sequence[float] = (),
) -> OpenSetTask:
    """The task of these parts, with its channel statistics or the given ones, and a note where an image is in two of
    them.

    Each image is decoded here once, so that none fails later; raises DataError for one that cannot be.
    """
    unknown = Labelled(development, np.full(len(development), split.num_known))
    repeats = Repeats()
    mean, std = channel_statistics(repeats.watch("training", chunks(train.images), train.targets))
    if normalisation:
        mean, std = channels_of(normalisation)
    for name, part in (("validation", val), ("development", unknown), ("test", test)):
        for _ in repeats.watch(name, chunks(part.images), part.targets):
            pass
    return OpenSetTask(
        split=split,
        class_names=class_names,
        train=train,
        val=val,
        development=unknown,
        test=test,
        test_classes=test_classes,
        mean=mean,
        std=std,
        notes={**(notes or {}), **repeats.notes()},
    )


def open_data_sets(config: DataConfig, data_dir: Path | None) -> dict[str, DataSet]:
    """The data sets of a recipe by name: that of the known classes first, then those of unknown ones.

    Raises ConfigError for an unknown name.
    """
    others = [config.unknown] if config.unknown else []
    if config.has_development and not config.num_development:
        others.append(config.development)
    return {name: open_data_set(name, data_dir, download=config.download) for name in (config.name, *others)}


def split_of(config: DataConfig, data_dir: Path | None) -> ClassSplit:
    """The class split of a recipe's data.

    Raises DataError for a data set that is missing or too small, ConfigError for an outlier set that does not fit.
    """
    check_outliers(config)
    data_sets = open_data_sets(config, data_dir)
    foreign = data_sets[config.unknown].num_classes if config.unknown else 0
    return draw_split(config, data_sets[config.name].num_classes, foreign)


@dataclass(frozen=True)
class _Images:
    """The images of a recipe's data sets, decoded, or encoded on disk where there is `unpacked`."""

    config: DataConfig
    data_sets: dict[str, DataSet]
    data_dir: Path | None
    unpacked: Mapping[str, Path] | None

    def read(self, name: str, part: Part, classes: Collection[int] | None = None) -> ImageSet:
        """The images of a data set's part."""
        data, size = self.data_sets[name], self.config.image_size
        if self.unpacked is None:
            return data.load(part, size=size, classes=classes)
        return data.index(part, size=size, classes=classes, unpacked=self.unpacked.get(name))

    def tested(self, split: ClassSplit) -> ImageSet:
        """Of known and unknown classes; those of another data set, or of outlier sets, follow, with labels from the
        number of classes on."""
        config = self.config
        if not (config.unknown or config.outliers):
            return self.read(config.name, "test", split.known + split.unknown)
        known = self.read(config.name, "test", split.known)
        num_classes = len(known.class_names)
        if config.outliers:
            foreign = self._outliers(count=len(known))
        else:
            foreign = self.read(config.unknown, "test", [number - num_classes for number in split.unknown])
        assert isinstance(known.images, np.ndarray)  # the recipe refuses to stream two data sets
        assert isinstance(foreign.images, np.ndarray)
        return ImageSet(
            images=np.concatenate([known.images, foreign.images]),
            labels=np.concatenate([known.labels, num_classes + foreign.labels]),
            class_names=known.class_names + foreign.class_names,
        )

    def _outliers(self, count: int) -> ImageSet:
        names = self.config.outliers
        sets = [open_outlier_set(name, self.data_dir).load(size=self.config.image_size, count=count) for name in names]
        return ImageSet(np.concatenate(sets), np.repeat(np.arange(len(sets)), count), names)

    def development(self, split: ClassSplit, seed: int, count: int) -> np.ndarray | StoredImages:
        """`count` images (or all, where there are fewer) of classes that are in no test setting."""
        name = self.config.name if split.development else self.config.development
        pool = self.read(name, "train", split.development or None)
        rows = keyed_generator(seed, "development").permutation(len(pool))[:count]
        return pool.images[np.sort(rows)]


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
                "and one to calibrate with. Add images or omit the class"
            )
        chosen[rows[: min(max(1, round(fraction * len(rows))), len(rows) - 1)]] = True
    return chosen


def _targets(class_ids: np.ndarray, split: ClassSplit) -> np.ndarray:
    """Class ids of the data set to 0..K-1, and K for every unknown one."""
    lookup = np.full(max(int(class_ids.max(initial=0)), *split.known) + 1, split.num_known, dtype=np.int64)
    lookup[list(split.known)] = np.arange(split.num_known)
    return lookup[class_ids]


def channels_of(normalisation: Sequence[float]) -> tuple[Channels, Channels]:
    """Means and standard deviations of `DataConfig.normalisation`, which has six numbers."""
    return (*normalisation[:3],), (*normalisation[3:],)  # type: ignore[return-value]


def channel_statistics(images: Iterable[np.ndarray]) -> tuple[Channels, Channels]:
    """Mean and standard deviation of each channel, in 0..1, of chunks uint8[n, H, W, 3]."""
    counts, levels = np.zeros((3, 256), np.int64), np.arange(256) / 255.0
    for chunk in images:
        for channel in range(3):
            counts[channel] += np.bincount(chunk[..., channel].ravel(), minlength=256)
    total = int(counts[0].sum())
    means = [float(count @ levels / total) for count in counts]
    stds = [
        max(float(np.sqrt(count @ (levels - mean) ** 2 / total)), 1e-3)
        for count, mean in zip(counts, means, strict=True)
    ]
    return (means[0], means[1], means[2]), (stds[0], stds[1], stds[2])
