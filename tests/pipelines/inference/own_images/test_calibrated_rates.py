"""The share of known images that a calibration keeps: given, or where errors cost least; what cannot be told of it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pipeline_runs import printed
from registered_models import Registry

from pipelines.commands.calibrate import CalibrateRequest, calibrate
from pipelines.tracking.models import load
from proser_core.errors import ConfigError, DataError
from proser_core.recognition.calibration import calibrate as fit_bias
from proser_core.recognition.calibration import images_needed
from proser_core.recognition.open_set_classifier import OpenSetClassifier

pytestmark = pytest.mark.usefixtures("empty_programs")


@pytest.mark.parametrize(
    ("rate", "needed"),
    [(0.95, 20), (0.9, 10), (0.93, 15), (0.97, 34), (0.7, 4), *((1 - 1 / n, n) for n in (95_499, 1_234_567))],
)
def test_there_are_as_many_images_as_make_one_unknown(rate: float, needed: int) -> None:
    assert images_needed(rate) == needed
    assert fit_bias(np.arange(float(needed)), rate).known_rate < 1
    assert fit_bias(np.arange(needed - 1.0), rate).known_rate == 1


@pytest.mark.parametrize(("rate", "reason"), [(1.0, "--target-rate got 1; need"), (0.9999, "need at least 10000")])
def test_a_rate_that_cannot_be_told_is_refused(registry: Registry, known: Path, rate: float, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        printed(calibrate, CalibrateRequest("models:/own/1", known, rate))


def test_it_takes_the_rate_at_which_errors_cost_least(
    registry: Registry, classifier: OpenSetClassifier, known: Path
) -> None:
    printed(calibrate, CalibrateRequest("models:/own/1", known, unknown_share=0.5, cost=4))
    made = load("models:/own@candidate").classifier
    assert classifier.known_rates is not None
    assert made.calibration.target_rate == classifier.known_rates.cheapest(0.5, 4)
    printed(calibrate, CalibrateRequest("models:/own/1", known, unknown_share=0.3))
    assert load("models:/own@candidate").classifier.calibration.target_rate > made.calibration.target_rate


def test_where_it_is_cheapest_to_keep_all_known_images_one_is_called_unknown(
    registry: Registry, classifier: OpenSetClassifier, known: Path
) -> None:
    """A bias that calls none of them unknown could be any."""
    assert classifier.known_rates is not None
    assert classifier.known_rates.cheapest(1e-6) == 1
    printed(calibrate, CalibrateRequest("models:/own/1", known, unknown_share=1e-6))
    made = load("models:/own@candidate").classifier.calibration
    assert made.known_rate == 1 - 1 / made.num_images


def test_a_single_image_is_too_few_for_the_cheapest_rate_too(registry: Registry, known: Path, tmp_path: Path) -> None:
    image = next(known.glob("*/*.png"))
    (tmp_path / image.name).symlink_to(image)
    with pytest.raises(ConfigError, match="--unknown-share got 1 image; need at least 2, so that one of them may"):
        printed(calibrate, CalibrateRequest("models:/own/1", tmp_path, unknown_share=0.1))


def test_the_cheapest_rate_of_a_model_that_saw_no_unknown_image_is_not_guessed(
    registry: Registry, classifier: OpenSetClassifier, known: Path
) -> None:
    number = registry.add(replace(classifier, validation_scores=None)).version
    with pytest.raises(DataError, match="was trained without unknown images to measure with"):
        printed(calibrate, CalibrateRequest(f"models:/own/{number}", known, unknown_share=0.1))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"unknown_share": 1.5}, "--unknown-share got 1.5; need a fraction"),
        ({"target_rate": 0.0}, "--target-rate got 0; need a fraction"),
        ({"unknown_share": 0.1, "cost": -1.0}, "--cost got -1; need a positive number"),
        ({"unknown_share": 0.1, "cost": math.inf}, "--cost got inf; need a positive number"),
        ({"unknown_share": 0.1, "target_rate": 0.9}, "are both given"),
        ({"cost": 3.0}, "--unknown-share, which is missing"),
    ],
)
def test_a_rule_that_decides_nothing_is_refused(known: Path, given: dict[str, float], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        CalibrateRequest("models:/own/1", known, **given)
