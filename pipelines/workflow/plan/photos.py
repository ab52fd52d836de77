"""The part of a plan that is of a user's own photos: how many are to be decoded, and how long that takes."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.storage.storage import Storage, find_artefact
from pipelines.workflow.training import TrainingInputs
from proser_core.data.photos import read_photos
from proser_core.jobs.preparing import PHOTOS, decodes_photos, photos_of, prepare_key
from proser_core.jobs.spec import PREPARE
from proser_core.store.store import load_if_complete
from proser_core.titles import duration

SAMPLE = 64
"""Photos by which the time is measured, spread over the folder."""


@dataclass(frozen=True)
class PhotoPlan:
    """Photos to decode, the seconds that one takes on all cores, and the bytes of its pixels."""

    count: int = 0
    seconds_each: float = 0.0
    bytes_each: int = 0

    @property
    def disk(self) -> int:
        """Bytes of all of them."""
        return self.count * self.bytes_each

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds to decode all of them, by stage; of no stage where nothing is to be decoded."""
        return {"photos": self.count * self.seconds_each} if self.count else {}

    def lines(self) -> dict[str, str]:
        """A row of the plan; none where nothing is to be decoded."""
        if not self.count:
            return {}
        total = duration(sum(self.seconds.values()))
        each = f"{1000 * self.seconds_each:.3g} ms each on all cores, measured now"
        return {"photos": f"{self.count:,} to decode, about {total} ({each})"}


def plan_photos(trainings: Iterable[TrainingInputs], store: Storage) -> PhotoPlan:
    """Plan for trainings on one folder at one size: all photos, unless their tasks are finished or they are decoded."""
    for inputs in trainings:
        for recipe, data in zip(inputs.recipes, inputs.data_inputs, strict=True):
            task = store.folder(PREPARE, prepare_key(data))
            if not decodes_photos(recipe) or find_artefact(store, task):
                continue
            paths, decisive = photos_of(recipe, inputs.data_dir)
            if load_if_complete(store.folder(PHOTOS, decisive)) is None:
                size = recipe.data.image_size
                return PhotoPlan(len(paths), _seconds_each(paths, size), 3 * size**2)
    return PhotoPlan()


def _seconds_each(paths: Sequence[str], size: int) -> float:
    some = [paths[row] for row in np.unique(np.linspace(0, len(paths) - 1, SAMPLE).astype(int)).tolist()]
    began = time.perf_counter()
    read_photos(some, size=size)
    return (time.perf_counter() - began) / len(some)
