"""A network by the score that decides."""

import math
from dataclasses import replace

import numpy as np
import pytest
from small_tasks import CPU, labelled, small_task, tiny_net

from proser_core.config import CalibrationConfig, Recipe
from proser_core.recognition.embedding_table import task_embeddings
from proser_core.recognition.scored_network import score_network
from proser_core.recognition.scores import PlaceholderGap

TASK = replace(small_task(), train=labelled(40, 2, seed=1), val=labelled(20, 2, seed=2))
TABLES = task_embeddings(tiny_net(2, 2), TASK, CPU)


@pytest.mark.parametrize("score", ["", "KNN", "auto"])
@pytest.mark.parametrize("rate", [0.5, 0.8])
def test_the_bias_keeps_the_share_of_validation_images_that_the_recipe_states(score: str, rate: float) -> None:
    recipe = Recipe(calibration=CalibrationConfig(score=score, target_rate=rate))
    found = score_network(recipe, PlaceholderGap(), TABLES, TASK)
    assert found.report.calibration.target_rate == rate
    kept = np.sort(found.score(TABLES["val"]))[math.ceil(rate * 20) - 1]
    assert found.report.calibration.bias == pytest.approx(-kept)
