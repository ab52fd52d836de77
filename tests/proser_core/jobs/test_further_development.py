"""Further development unknowns: which images of a data set they are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from frozen_features import as_artefact
from small_tasks import small_task

from proser_core.config import CalibrationConfig, DataConfig, Recipe
from proser_core.data.readers import digits
from proser_core.jobs.further_development import further_images
from proser_core.jobs.network_tables import load_further
from proser_core.store.store import Store

RECIPE = Recipe(
    data=DataConfig(image_size=8), calibration=CalibrationConfig(score="auto", development=("digits", "noise"))
)


def test_they_are_drawn_by_the_seed_from_the_training_images_as_many_as_there_are_validation_images(
    tmp_path: Path,
) -> None:
    task, store = as_artefact(small_task(), tmp_path / "task"), Store(tmp_path / "storage")
    training, test = ([image.tobytes() for image in digits.read(part, 8).images] for part in ("train", "test"))
    count, rows = len(small_task().val), []
    for seed in (0, 0, 1):
        drawn = load_further(further_images(replace(RECIPE, seed=seed), task, None, store))
        assert {name: each.shape for name, each in drawn.items()} == dict.fromkeys(
            ("digits", "noise"), (count, 8, 8, 3)
        )
        images = [image.tobytes() for image in drawn["digits"]]
        assert not set(images) & set(test)
        rows.append([training.index(image) for image in images])
    assert rows[0] == rows[1] != rows[2]
    assert all(len(set(each)) == count for each in rows)
    assert np.max(rows) >= 20 * count, "not the first ones alone"


def test_without_a_name_there_are_none(tmp_path: Path) -> None:
    task = as_artefact(small_task(), tmp_path / "task")
    assert load_further(further_images(Recipe(), task, None, Store(tmp_path / "storage"))) == {}
