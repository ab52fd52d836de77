"""The best trials of a sweep that begins from scratch, registered as a model."""

import json
import shutil
from dataclasses import replace

import pytest
from pipeline_runs import RunFolder, printed, quick_recipe
from sweep_runs import request, rows_of, task_of

from pipelines.tracking.models import load
from pipelines.workflow.best_of import register_best
from pipelines.workflow.sweeping import sweep
from proser_core.config import CalibrationConfig
from proser_core.store.files import write_json
from proser_core.store.store import MANIFEST

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("trains_here", "empty_figures", "empty_programs")]
CONTROLS = {"MaxLogit", "CE control, MaxLogit", "CE ensemble of 2, MaxLogit"}


def sweep_from_scratch(folder: RunFolder, *, mirror: bool = False) -> None:
    tiny = quick_recipe()
    scratch = replace(tiny.finetune, start="scratch")
    recipe = replace(tiny, finetune=scratch, calibration=CalibrationConfig(mirror=mirror))
    assert printed(sweep, request(folder, recipe=recipe, spaces=("betas",), split_indices=(1,)))[0] == 0


@pytest.mark.parametrize("mirror", [False, True])
def test_trials_from_scratch_stand_beside_the_pretrained_network_too(folder: RunFolder, mirror: bool) -> None:
    """They do not begin from it, so that nothing of theirs names it."""
    sweep_from_scratch(folder, mirror=mirror)
    register_best("digits, betas", folder.storage, 1, f"scratch_{mirror}", members=2)
    assert set(load(f"models:/scratch_{mirror}/1").classifier.controls) >= CONTROLS


def test_the_pretrained_network_is_that_of_the_trials_seed_where_another_seed_has_the_same_images(
    folder: RunFolder,
) -> None:
    sweep_from_scratch(folder)
    task = task_of(folder, rows_of(folder)[0])
    same = shutil.copytree(task, task.with_name("0"))  # as of images with a val/ of their own
    manifest = json.loads((same / MANIFEST).read_text())
    write_json(same / MANIFEST, manifest | {"inputs": manifest["inputs"] | {"seed": 7}})
    register_best("digits, betas", folder.storage, 1, "of_two_seeds", members=2)
    classifier = load("models:/of_two_seeds/1").classifier
    assert set(classifier.controls) >= CONTROLS
    assert classifier.recipe["seed"] == manifest["inputs"]["seed"]
