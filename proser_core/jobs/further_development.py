"""Further development unknowns that a score is chosen by: images of other data sets, or of outlier sets."""

from pathlib import Path

import numpy as np

from proser_core.config import Recipe
from proser_core.data.catalogue import SOURCES
from proser_core.data.data_sets import DataRoot, DataSet
from proser_core.data.outliers.outlier_sets import OUTLIERS, OutlierSet, sources_of
from proser_core.data.tasks import TaskSummary
from proser_core.data.unknown_sets import check_beside_own, open_set
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
        check_beside_own("calibration.development has", name, data, data_dir)
        if missing := open_set(name, data_dir, download=data.download).missing:
            raise DataError(missing)


def further_images(recipe: Recipe, task: Artefact, data_dir: DataRoot, store: Store) -> Artefact | None:
    """As many images of each set as there are validation images, or all: NAME.npy, uint8[N, H, W, 3]. None where the
    recipe names no set."""
    names = recipe.calibration.development
    if not names:
        return None
    sets = {name: open_set(name, data_dir, download=recipe.data.download) for name in names}
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


def _read(images: DataSet | OutlierSet, size: int, count: int, seed: int) -> np.ndarray:
    """Drawn by `seed` of a data set's training images; of an outlier set, the same each time."""
    if isinstance(images, OutlierSet):
        there = images.place.count if images.place else None
        return images.load(size=size, count=count if there is None else min(count, there))
    pool = images.load("train", size=size).images
    assert isinstance(pool, np.ndarray)
    rows = keyed_generator(seed, f"development {images.name}").permutation(len(pool))[:count]
    return pool[np.sort(rows)]
