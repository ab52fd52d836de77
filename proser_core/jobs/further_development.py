"""Further development unknowns that a score is chosen by: images of other data sets, or of outlier sets."""

from pathlib import Path

import numpy as np

from proser_core.config import Recipe
from proser_core.data.catalogue import SOURCES
from proser_core.data.data_sets import DataRoot, DataSet, open_data_set, path_of
from proser_core.data.outliers.outlier_sets import OUTLIERS, OutlierSet, open_outlier_set, sources_of
from proser_core.data.tasks import TaskSummary
from proser_core.errors import ConfigError, DataError
from proser_core.naming import look_up
from proser_core.rng import keyed_generator
from proser_core.store.code_version import code_version
from proser_core.store.store import Artefact, Store

FURTHER = "further_development"
READING = __name__


def check_further(recipe: Recipe, data_dir: DataRoot) -> None:
    """Raises ConfigError for a set that there is not, that is known or tested on, or that has no place beside one's own
    classes, DataError for one not found."""
    data = recipe.data
    taken = set().union(*map(sources_of, (data.name, data.unknown, data.development, *data.outliers)))
    for name in recipe.calibration.development:
        look_up("set of development unknowns", name, {**SOURCES, **OUTLIERS})
        if sources_of(name) & taken:
            raise ConfigError(
                f"calibration.development has {name}, whose classes or images are known, tested on, or already "
                "those of data.development; give another set"
            )
        found, root = _opened(name, data_dir, data.download), path_of(data_dir)
        if data.is_own and root and not (root / "train").is_dir() and _has_files(found):
            raise ConfigError(
                f"calibration.development has {name}, whose files would be a class among yours in {root}; move your "
                "classes to train/CLASS and put its Parquet files beside train/, or name a generated set, such as noise"
            )
        if found.missing:
            raise DataError(found.missing)


def further_images(recipe: Recipe, task: Artefact, data_dir: DataRoot, store: Store) -> Artefact | None:
    """As many images of each set as there are validation images, or all: NAME.npy, uint8[N, H, W, 3]. None where the
    recipe names no set."""
    names = recipe.calibration.development
    if not names:
        return None
    sets = {name: _opened(name, data_dir, recipe.data.download) for name in names}
    about = TaskSummary.read(task.path)
    count, size = about.counts["val"], about.image_size
    inputs = {
        "files": {name: list(each.fingerprints()) for name, each in sets.items()},
        "count": count,
        "size": size,
        "seed": recipe.seed,
        "code": code_version(READING),
    }

    def build(folder: Path) -> None:
        for name in names:
            np.save(folder / f"{name}.npy", _read(sets[name], size, count, recipe.seed))

    return store.run(FURTHER, inputs, build)


def _opened(name: str, data_dir: DataRoot, download: bool) -> DataSet | OutlierSet:
    if name in OUTLIERS:
        return open_outlier_set(name, data_dir)
    return open_data_set(name, data_dir, download=download)


def _has_files(found: DataSet | OutlierSet) -> bool:
    """Whether it is one that lies in a data directory: not generated, nor part of a package."""
    if isinstance(found, OutlierSet):
        return found.place is None or found.place.count is not None
    return found.layout is None or bool(found.layout.needs)


def _read(images: DataSet | OutlierSet, size: int, count: int, seed: int) -> np.ndarray:
    """Drawn by `seed` of a data set's training images; of an outlier set, the same each time."""
    if isinstance(images, OutlierSet):
        there = images.place.count if images.place else None
        return images.load(size=size, count=count if there is None else min(count, there))
    pool = images.load("train", size=size).images
    assert isinstance(pool, np.ndarray)
    rows = keyed_generator(seed, f"development {images.name}").permutation(len(pool))[:count]
    return pool[np.sort(rows)]
