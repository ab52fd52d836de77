"""Outlier sets by name: test images of one unknown class without a name, each set a test setting of its own.

Some are read, some generated, by fixed draws: every seed, class split and method is tested on the same images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from proser_core.config import DataConfig
from proser_core.data.catalogue import SOURCES
from proser_core.data.data_sets import DataRoot, path_of, state_of
from proser_core.data.outliers import grey, odin
from proser_core.data.outliers.places import OutlierSource, Place
from proser_core.data.readers.fingerprints import Fingerprints
from proser_core.errors import ConfigError, DataError
from proser_core.naming import Named
from proser_core.rng import keyed_generator

OUTLIERS: dict[str, OutlierSource] = Named("outlier set", (*grey.SETS, *odin.SETS))


def open_outlier_set(name: str, data_dir: DataRoot) -> "OutlierSet":
    """The outlier set `name` where it lies in `data_dir`. Nothing is read yet, and `missing` says whether it is there.

    Raises ConfigError for an unknown name.
    """
    source, root = OUTLIERS[name], path_of(data_dir)
    return OutlierSet(source, root, source.find(root))


@dataclass(frozen=True)
class OutlierSet:
    """An outlier set in a data directory; `place` is None where it is missing, and DataError says so."""

    source: OutlierSource
    data_dir: Path | None
    place: Place | None

    @property
    def missing(self) -> str:
        """Why it cannot be read, and what to do; empty where it is there."""
        if self.place is not None:
            return ""
        origin = f" Download it from {self.source.origin}." if self.source.origin else ""
        state = state_of(self.data_dir, "it")
        return (
            f"the outlier set {self.source.name} was not found: {state}; need {self.source.needs} in it.{origin} Give "
            "its directory with --data-dir (in a job file: data_dir); no option downloads outlier sets"
        )

    @property
    def note(self) -> str:
        """What a reader of results must know of the set as it lies there; of most nothing."""
        return self._found().note

    def fingerprints(self) -> Fingerprints:
        """What tells changed files from unchanged ones; nothing of a generated set."""
        return self._found().fingerprints()

    def load(self, *, size: int, count: int) -> np.ndarray:
        """uint8[count, size, size, 3], the same images each time. Raises DataError where it has fewer."""
        place = self._found()
        if place.count is None:
            return place.read(np.arange(count), size)
        if count > place.count:
            raise DataError(
                f"{self.source.name} has {place.count:,} images; need {count:,}, one per known test image. "
                "Choose another outlier set"
            )
        rows = keyed_generator(0, f"outliers {self.source.name}").permutation(place.count)[:count]
        return place.read(np.sort(rows), size)

    def _found(self) -> Place:
        if self.place is None:
            raise DataError(self.missing)
        return self.place


def outlier_notes(names: Sequence[str], data_dir: DataRoot) -> dict[str, str]:
    """`OutlierSet.note` of those of the sets that have one, by name."""
    notes = {name: open_outlier_set(name, data_dir).note for name in names}
    return {name: note for name, note in notes.items() if note}


def check_outliers(config: DataConfig) -> None:
    """Raises ConfigError for an unknown set, and for one whose classes are known."""
    for name in config.outliers:
        if OUTLIERS[name].classes_of == config.name:
            raise ConfigError(
                f"data.outliers has {name}, whose classes are those of {config.name}, and these are known; omit it"
            )


def sources_of(name: str) -> set[str]:
    """A data set or outlier set, and all sets whose classes or images it has."""
    outliers, source = OUTLIERS.get(name), SOURCES.get(name)
    others = (outliers.classes_of, *outliers.made_of) if outliers else (source.classes_of,) if source else ()
    return {name}.union(*map(sources_of, filter(None, others)))
