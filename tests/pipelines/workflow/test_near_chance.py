"""Which accuracies of a pretraining guessing would reach, too, and which AUROC random scores would."""

from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.recipes import RECIPES
from pipelines.workflow.running import _say_detection, detects_by_chance
from pipelines.workflow.stages.pretrain import is_near_chance
from proser_core.recognition.validation_scores import Proxy, ValidationScores


@pytest.mark.parametrize(
    ("correct", "count", "num_classes", "expected"),
    [
        (190, 200, 2, False),
        (110, 200, 2, True),
        (11, 15, 2, True),
        (12, 15, 2, False),
        (4, 4, 2, False),
        (60, 100, 3, False),
        (40, 100, 3, True),
        (9, 500, 100, True),
        (10, 500, 100, False),
    ],
)
def test_an_accuracy_is_near_chance_where_guessing_would_reach_it(
    correct: int, count: int, num_classes: int, expected: bool
) -> None:
    assert is_near_chance(correct, count, num_classes) == expected


@pytest.mark.parametrize(("known", "unknown"), [(24, 10), (200, 5), (60, 60)])
def test_an_auroc_is_near_chance_where_random_scores_would_nearly_always_be_below(known: int, unknown: int) -> None:
    scores = np.random.default_rng(0).random((4000, known + unknown))
    areas = (scores[:, :known, None] < scores[:, None, known:]).mean(axis=(1, 2))
    taken = [detects_by_chance(area, known, unknown) for area in areas]
    assert 0.965 < np.mean(taken) < 0.99, "two standard errors on one side"
    assert not detects_by_chance(0.95, known, unknown)
    assert detects_by_chance(0.5, known, unknown)


@pytest.mark.parametrize(("name", "epochs"), [("folder", "pretrain"), ("folder-from-scratch", "finetune")])
def test_the_epochs_that_would_help_are_those_of_what_is_trained(name: str, epochs: str) -> None:
    said, scores = list[str](), np.arange(40.0)
    of_proxy = ValidationScores(scores, *2 * [np.tile([0, 1, 0, 2], 10)], 2, "images")
    session = SimpleNamespace(say=said.append)
    _say_detection(session, Proxy(of_proxy, 0.0, {}, ("two",), ()), RECIPES[name]())
    assert f"Give more images or more --{epochs}.epochs, or use the recipe folder-pretrained" in said[-1]
