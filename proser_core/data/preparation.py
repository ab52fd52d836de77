"""Images on disk to an `OpenSetTask`: class split, validation draw, development unknowns."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from proser_core.config import DataConfig
from proser_core.data.data_sets import DataRoot, DataSet, open_data_set
from proser_core.data.group_notes import KnownGroups
from proser_core.data.grouping import Grouping
from proser_core.data.image_sets import ImageSet, ImageSource, chunks, joined_arrays
from proser_core.data.mirroring import Mirroring, judge_mirroring
from proser_core.data.outliers.outlier_sets import check_outliers, open_outlier_set, outlier_notes
from proser_core.data.readers.layout import Part
from proser_core.data.repeats import Repeats
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.splits.drawing import draw_split
from proser_core.data.splits.grouped_draw import draw_rows
from proser_core.data.tasks import Channels, Labelled, OpenSetTask
from proser_core.data.unknown_sets import check_unknown
from proser_core.errors import ConfigError, DataError
from proser_core.naming import check_class_names
from proser_core.rng import keyed_generator
from proser_core.titles import counted


def make_task(
    config: DataConfig, data_dir: DataRoot | str = None, seed: int = 0, unpacked: Mapping[str, Path] | None = None
) -> OpenSetTask:
    """Read the images and give each its role.

    Validation is stratified and drawn with `seed`, unless the data set has its own; there are as many
    development unknowns as validation images. Groups of own images (`data.group_by`) are not divided.
    With `unpacked`, which has folders of `DataSet.index` by data set, the images stay encoded on disk. Raises DataError
    where images or classes are missing, or an image cannot be decoded; ConfigError for an image size or a number of
    known classes of 0, and as `split_of`.
    """
    if not config.image_size:
        raise ConfigError(
            "data.image_size is 0, and no backbone is at hand that has a size of its own; give one in pixels"
        )
    if config.knows_all:
        raise ConfigError(
            "data.num_known is 0, all classes, of which a run makes two tasks, the first for a proxy; for one task, "
            "give the number of known classes"
        )
    data_dir = Path(data_dir) if isinstance(data_dir, str) else data_dir
    images = _Images(config, open_data_sets(config, data_dir), data_dir, unpacked)
    split = split_of(config, data_dir)
    known = images.read(config.name, "train", split.known)
    names = tuple(known.class_names[class_id] for class_id in split.known)
    check_class_names(names)
    tested = images.tested(split, known)
    drawn = images.data_sets[config.name].drawn_parts
    if "val" in drawn:
        val_rows = stratified_rows(_targets(known.labels, split), names, config.val_fraction, seed, known.groups)
        train, val = known.select(~val_rows), known.select(val_rows)
    else:
        train, val = known, images.read(config.name, "val", split.known)
    development = (
        images.development(split, seed, count=len(val), apart_from=(train, tested))
        if config.has_development
        else known.select(np.zeros(0, np.int64))
    )
    grouped = KnownGroups.of(
        {"train": train, "val": val, "test": tested}, dict(zip(split.known, names, strict=True)), drawn
    )
    mirroring = Mirroring(True, "")
    if config.is_own:
        labels = _targets(train.labels, split)
        mirroring = judge_mirroring(replace(train, labels=labels, class_names=names), names, seed)
    return assemble(
        split,
        names,
        train=Labelled(train.images, _targets(train.labels, split)),
        val=Labelled(val.images, _targets(val.labels, split)),
        development=development.images,
        test=Labelled(tested.images, _targets(tested.labels, split)),
        test_classes=tested.labels,
        notes=outlier_notes(config.outliers, data_dir) | grouped.notes() | mirroring.notes(),
        groups=grouped.counts(),
        flip=mirroring.harmless,
        normalisation=config.normalisation,
        contents=joined_arrays(val.digests(), development.digests()),
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
    groups: Mapping[str, int] | None = None,
    flip: bool = True,
    normalisation: Sequence[float] = (),
    contents: np.ndarray | None = None,
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
        groups=dict(groups or {}),
        flip=flip,
        contents=contents,
    )


def open_data_sets(config: DataConfig, data_dir: DataRoot) -> dict[str, DataSet]:
    """The data sets of a recipe by name: that of the known classes first, then those of unknown ones.

    Raises ConfigError for an unknown name.
    """
    others = [config.unknown] if config.unknown else []
    if config.has_development and not config.num_development:
        others.append(config.development)
    grouping = Grouping(config.group_by, config.group_near_duplicates)
    return {
        name: open_data_set(name, data_dir, download=config.download, grouping=grouping)
        for name in (config.name, *others)
    }


def split_of(config: DataConfig, data_dir: DataRoot) -> ClassSplit:
    """The class split of a recipe's data.

    Raises DataError for a data set that is missing or too small, ConfigError for an outlier set, unknown classes or
    development unknowns that do not fit.
    """
    check_outliers(config)
    check_unknown(config, data_dir)
    data_sets = open_data_sets(config, data_dir)
    foreign = data_sets[config.unknown].num_classes if config.unknown else 0
    return draw_split(config, data_sets[config.name].num_classes, foreign)


@dataclass(frozen=True)
class _Images:
    """The images of a recipe's data sets, decoded, or encoded on disk where there is `unpacked`."""

    config: DataConfig
    data_sets: dict[str, DataSet]
    data_dir: DataRoot
    unpacked: Mapping[str, Path] | None

    def read(self, name: str, part: Part, classes: Collection[int] | None = None) -> ImageSet:
        """The images of a data set's part."""
        data, size = self.data_sets[name], self.config.image_size
        if self.unpacked is None:
            return data.load(part, size=size, classes=classes)
        return data.index(part, size=size, classes=classes, unpacked=self.unpacked.get(name))

    def tested(self, split: ClassSplit, training: ImageSet) -> ImageSet:
        """Test images of known and unknown classes; those of another data set, or of outlier sets, follow, with labels
        from the number of classes on. `training` are the training images of known classes."""
        config = self.config
        if not (config.unknown or config.outliers):
            return self._with_untested(self.read(config.name, "test", split.known + split.unknown), split, training)
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
            groups=None if known.groups is None else np.append(known.groups, np.full(len(foreign), -1)),
        )

    def _with_untested(self, tested: ImageSet, split: ClassSplit, training: ImageSet) -> ImageSet:
        """Also of unknown classes of which the test has none, because they have too few groups: their other images, but
        for those that look like a training image. Raises DataError where none is left."""
        lacking = [number for number in split.unknown if not (tested.labels == number).any()]
        if not lacking:
            return tested
        others = self.read(self.config.name, "train", lacking)
        assert others.groups is not None  # else each class has test images
        assert training.groups is not None
        others = others.select(~np.isin(others.groups, training.groups))
        for number in set(lacking) - set(others.labels.tolist()):
            raise DataError(
                f"class {tested.class_names[number]!r} has no image to test with that is in no group with training "
                "images; add images of other scenes, or see data.group_by and data.group_near_duplicates"
            )
        return tested.joined(others)

    def _outliers(self, count: int) -> ImageSet:
        names = self.config.outliers
        sets = [open_outlier_set(name, self.data_dir).load(size=self.config.image_size, count=count) for name in names]
        return ImageSet(np.concatenate(sets), np.repeat(np.arange(len(sets)), count), names)

    def development(self, split: ClassSplit, seed: int, count: int, apart_from: Sequence[ImageSet]) -> ImageSet:
        """`count` images (or all, where there are fewer) of classes that are in no test setting, in no group with one
        of the training and test images `apart_from`; a group may be shared with validation, which is not trained on
        either. Raises DataError where none is left."""
        name = self.config.name if split.development else self.config.development
        pool = self.read(name, "train", split.development or None)
        if name == self.config.name and pool.groups is not None:
            taken = np.concatenate([each.groups for each in apart_from if each.groups is not None])
            apart = ~np.isin(pool.groups, taken)
            if not apart.any():
                raise DataError(
                    "the classes held out for development have no image that is in no group with one that is trained "
                    "or tested on; add images of other scenes, or see data.group_by and data.group_near_duplicates"
                )
            pool = pool.select(apart)
        rows = keyed_generator(seed, "development").permutation(len(pool))[:count]
        return pool.select(np.sort(rows))


def stratified_rows(
    targets: np.ndarray, names: tuple[str, ...], fraction: float, seed: int, groups: np.ndarray | None = None
) -> np.ndarray:
    """Mask of a stratified draw: `fraction` of each class 0..len(names)-1, at least one image, never all.

    With `groups` int64[N] none of them is divided, and a class of one group has nothing drawn; the draw of a class then
    depends on its name and not on the other classes, so that a further class leaves it. Raises DataError for a class
    with fewer than two images, and where every class is one group.
    """
    ranks, quotas = np.zeros(len(targets), np.int64), np.zeros(len(names), np.int64)
    generator = keyed_generator(seed, "validation")
    for target, name in enumerate(names):
        own = generator if groups is None else keyed_generator(seed, f"validation {name}")
        rows = own.permutation(np.flatnonzero(targets == target))
        if len(rows) < 2:
            raise DataError(
                f"known class {name!r} has {counted(len(rows), 'training image')}; it needs at least 2, one to train "
                "on and one to calibrate with. Add images or omit the class"
            )
        ranks[rows], quotas[target] = np.arange(len(rows)), min(max(1, round(fraction * len(rows))), len(rows) - 1)
    if groups is None:
        return ranks < quotas[targets]
    return draw_rows(targets, groups, ranks, quotas, left=1)


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
