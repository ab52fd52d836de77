"""Outlier sets by name: test images of one unknown class without a name, each set a test setting of its own.

Some are read, some generated. Which images are taken, and what is generated, is drawn once and for all: every seed,
class split and method is tested on the same ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proser_core.config import DataConfig
from proser_core.data.catalogue import SOURCES, needs
from proser_core.data.outliers import grey as grey_outliers
from proser_core.data.outliers import odin
from proser_core.data.readers.places import Find, Fingerprints, Place
from proser_core.errors import ConfigError, DataError
from proser_core.naming import look_up
from proser_core.rng import keyed_generator


@dataclass(frozen=True)
class OutlierSet:
    """Where a set is looked for, in words and in code, and where it is to be had, with size and licence.

    `classes_of` is the data set that shares its classes.
    """

    name: str
    needs: str
    find: Find
    origin: str = ""
    classes_of: str = ""


OUTLIERS = {
    each.name: each
    for each in (
        OutlierSet("omniglot", grey_outliers.OMNIGLOT, grey_outliers.find_omniglot, grey_outliers.OMNIGLOT_ORIGIN),
        OutlierSet("mnist-noise", needs(SOURCES["mnist"]), grey_outliers.find_mnist_noise, SOURCES["mnist"].origin),
        OutlierSet("noise", "nothing", grey_outliers.find_noise),
        *(
            OutlierSet(
                f"{name}-{way}",
                odin.needs(folder, odin.RAW[name]),
                odin.finder(f"{name}-{way}", folder, way, odin.RAW[name]),
                odin.origin(way, odin.RAW[name]),
                classes_of="tiny-imagenet" if name == "imagenet" else "",
            )
            for name, way, folder in (
                ("imagenet", "crop", "Imagenet"),
                ("imagenet", "resize", "Imagenet_resize"),
                ("lsun", "crop", "LSUN"),
                ("lsun", "resize", "LSUN_resize"),
            )
        ),
    )
}


def check_outliers(config: DataConfig) -> None:
    """Raises ConfigError for a set that is none, and for one of the classes that are known or choose."""
    for name in config.outliers:
        shared = look_up("outlier set", name, OUTLIERS).classes_of
        if shared and shared in (config.name, config.development):
            role = "known" if shared == config.name else "the development unknowns"
            raise ConfigError(
                f"data.outliers has {name}, whose classes are those of {shared}, and these are {role}; leave one out"
            )


def find_outliers(name: str, data_dir: Path | None) -> Place | None:
    """Where a set lies below `data_dir`, or None."""
    return look_up("outlier set", name, OUTLIERS).find(data_dir)


def outlier_fingerprints(name: str, data_dir: Path | None) -> Fingerprints:
    """As `sources.fingerprints`; nothing of a generated set. Raises DataError where the set is not found."""
    return _place(name, data_dir).fingerprints()


def outlier_notes(names: Sequence[str], data_dir: Path | None) -> dict[str, str]:
    """What whoever reads a result must know of the sets as they lie there, by name; of most of them nothing."""
    notes = {name: _place(name, data_dir).note for name in names}
    return {name: note for name, note in notes.items() if note}


def load_outliers(name: str, data_dir: Path | None, *, size: int, count: int) -> np.ndarray:
    """uint8[count, size, size, 3]: as many images as there are known test images.

    Raises DataError where the set is not found, damaged, or has fewer.
    """
    place = _place(name, data_dir)
    if place.count is None:
        return place.read(np.arange(count), size)
    if count > place.count:
        raise DataError(
            f"{name} has {place.count:,} images and there are {count:,} known test images; as many are needed. Choose "
            "another outlier set"
        )
    rows = keyed_generator(0, f"outliers {name}").permutation(place.count)[:count]
    return place.read(np.sort(rows), size)


def missing_outliers(name: str, data_dir: Path | None) -> str:
    """Why a set cannot be read, and what to do; empty where it is there."""
    if find_outliers(name, data_dir) is not None:
        return ""
    about = OUTLIERS[name]
    where = "no data directory was given" if data_dir is None else f"{data_dir} does not hold it"
    origin = f" It is to be had at {about.origin}." if about.origin else ""
    return (
        f"the outlier set {name} was not found: {where}; need {about.needs} in it.{origin} Give its directory "
        "(--data-dir, or data_dir in JOB.json); no option downloads outlier sets"
    )


def _place(name: str, data_dir: Path | None) -> Place:
    place = find_outliers(name, data_dir)
    if place is None:
        raise DataError(missing_outliers(name, data_dir))
    return place
