"""Further development unknowns: which images of a data set they are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from frozen_features import as_artefact
from PIL import Image
from small_tasks import labelled, random_images, small_task

from proser_core.config import CalibrationConfig, DataConfig, Recipe
from proser_core.data.outliers import grey
from proser_core.data.readers import digits
from proser_core.data.tasks import Labelled
from proser_core.errors import ConfigError, DataError
from proser_core.jobs.further_development import check_further, further_images
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


def test_a_task_of_another_size_or_count_and_changed_files_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawings, store, small = tmp_path / "images" / grey.OMNIGLOT_FOLDER, Store(tmp_path / "storage"), small_task()
    drawings.mkdir(parents=True)
    monkeypatch.setattr(grey, "NUM_OMNIGLOT", 6)
    recipe = replace(RECIPE, calibration=CalibrationConfig(score="auto", development=("omniglot",)))

    def draw(more_rows: int) -> None:
        for number in range(6):
            Image.new("1", (105, 105 + more_rows)).save(drawings / f"{number}.png")

    draw(0)
    tasks = {
        "small": small,
        "large": replace(small, train=Labelled(random_images(12, 16), small.train.targets)),
        "few": replace(small, val=labelled(4, 2)),
    }
    stored = {name: as_artefact(task, tmp_path / name) for name, task in tasks.items()}

    def shape(name: str) -> tuple[int, ...]:
        return load_further(further_images(recipe, stored[name], tmp_path / "images", store))["omniglot"].shape

    assert [shape(name) for name in stored] == [(6, 8, 8, 3), (6, 16, 16, 3), (4, 8, 8, 3)]
    again = recipe, stored["small"], tmp_path / "images", store
    before = further_images(*again)
    draw(1)
    assert further_images(*again) != before


def test_without_a_name_there_are_none(tmp_path: Path) -> None:
    task = as_artefact(small_task(), tmp_path / "task")
    assert load_further(further_images(Recipe(), task, None, Store(tmp_path / "storage"))) == {}


def test_a_development_set_of_files_has_no_place_beside_classes_of_ones_own(tmp_path: Path) -> None:
    recipe = Recipe(
        data=DataConfig(name="folder", num_known=0, unknown_settings=(), development="none"),
        calibration=CalibrationConfig(score="auto", development=("cifar10",)),
    )
    for place, error in (("cat", "move your classes to train/CLASS"), ("train/cat", "cifar10 was not found")):
        (tmp_path / place).mkdir(parents=True)
        with pytest.raises((ConfigError, DataError), match=error):
            check_further(recipe, tmp_path)
    generated = replace(recipe, calibration=CalibrationConfig(score="auto", development=("noise",)))
    check_further(generated, tmp_path)


@pytest.mark.parametrize("tested", ["imagenet-crop", "lsun-crop"])
def test_test_images_in_another_size_choose_no_score(tested: str) -> None:
    data = DataConfig(num_known=10, name="cifar10", unknown_settings=(), outliers=(tested,), development="cifar100")
    chosen = CalibrationConfig(score="auto", development=(tested.replace("crop", "resize"),))
    with pytest.raises(ConfigError, match="whose classes or images are known, tested on"):
        check_further(Recipe(data=data, calibration=chosen), None)


@pytest.mark.parametrize(("development", "outliers"), [("mnist-noise", ()), ("mnist-noise", ("noise",))])
def test_images_made_of_test_images_choose_no_score(development: str, outliers: tuple[str, ...]) -> None:
    name, settings = ("digits", ()) if outliers else ("mnist", (4,))
    data = DataConfig(num_known=6, name=name, unknown_settings=settings, outliers=outliers)
    chosen = CalibrationConfig(score="auto", development=(development,))
    with pytest.raises(ConfigError, match="whose classes or images are known, tested on"):
        check_further(Recipe(data=data, calibration=chosen), None)
