"""The best trials of a sweep that begins from scratch, registered as a model."""

from dataclasses import replace

import pytest
from pipeline_runs import RunFolder, printed, quick_recipe
from sweep_runs import request

from pipelines.tracking.models import load
from pipelines.workflow.best_of import register_best
from pipelines.workflow.sweeping import sweep
from proser_core.config import CalibrationConfig

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures", "empty_programs")


@pytest.mark.slow
@pytest.mark.parametrize("mirror", [False, True])
def test_trials_from_scratch_stand_beside_the_pretrained_network_too(folder: RunFolder, mirror: bool) -> None:
    """They do not begin from it, so that nothing of theirs names it."""
    tiny = quick_recipe()
    scratch = replace(tiny.finetune, start="scratch")
    recipe = replace(tiny, finetune=scratch, calibration=CalibrationConfig(mirror=mirror))
    assert printed(sweep, request(folder, recipe=recipe, spaces=("betas",), split_indices=(1,)))[0] == 0
    register_best("digits, betas", folder.storage, 1, f"scratch_{mirror}", members=2)
    controls = load(f"models:/scratch_{mirror}/1").classifier.controls
    assert {"MaxLogit", "CE control, MaxLogit", "CE ensemble of 2, MaxLogit"} <= set(controls)
