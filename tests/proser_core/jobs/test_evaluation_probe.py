"""The measured time of an evaluation: every kind of recipe has one, and no score complains meanwhile."""

import logging
import timeit
from dataclasses import replace

import pytest

from proser_core.config import CalibrationConfig, DataConfig, Recipe
from proser_core.jobs.evaluation_probe import SAMPLE, measure_evaluation

IMAGES = {"train": 3000, "val": 300, "development": 300, "test": 600}


def with_data(**fields: object) -> Recipe:
    return Recipe(space="", data=replace(DataConfig(image_size=16), **fields))


RECIPES = {
    "logits": with_data(),
    "embeddings": replace(with_data(), calibration=CalibrationConfig(score="auto", development=("cifar10",))),
    "a score of dummies": replace(with_data(), calibration=CalibrationConfig(score="gap")),
    "another of them": replace(with_data(), calibration=CalibrationConfig(score="p(unknown)")),
    "mirrored": replace(with_data(), calibration=CalibrationConfig(mirror=True)),
    "outlier sets": with_data(outliers=("noise", "omniglot"), unknown_settings=()),
    "every class known": with_data(unknown_settings=(), development="none"),
    "more classes than images in the sample": with_data(num_known=1500),
    "a Gaussian of each class": replace(with_data(num_known=150), calibration=CalibrationConfig(score="Mahalanobis")),
}


SLOW = "embeddings", "more classes than images in the sample"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in RECIPES]
)
def test_every_kind_of_recipe_has_a_time(name: str, caplog: pytest.LogCaptureFixture) -> None:
    recipe = RECIPES[name]
    images = IMAGES | ({} if recipe.data.has_development else {"development": 0})
    assert measure_evaluation(recipe, images) > 0
    assert not caplog.records
    assert logging.getLogger("proser_core").isEnabledFor(logging.WARNING), "later warnings are heard"


@pytest.mark.parametrize("times", [1, 10])
def test_the_best_time_of_a_sample_is_that_of_all_images_in_proportion(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeit, "repeat", lambda *_, **__: [3.0, 2.0])
    images = {part: 10 * times * count for part, count in IMAGES.items()}
    assert measure_evaluation(with_data(), images) == pytest.approx(2.0 * sum(images.values()) / SAMPLE, rel=0.01)
