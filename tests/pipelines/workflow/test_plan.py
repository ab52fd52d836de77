"""What is planned before the images are read is what is then prepared."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_runs import tiny_recipe
from stored_sets import write_folder

from pipelines.workflow.plan import plan_splits
from pipelines.workflow.training import TrainingInputs
from proser_core.data.preparation import make_task
from proser_core.store.store import Store


@pytest.mark.parametrize("development", ["none", "held-out-2"])
@pytest.mark.parametrize("own_validation", [False, True])
def test_images_of_balanced_classes_are_counted_by_role(own_validation: bool, development: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 8)
    for part in ("train", "test"):
        for name in (folder / part).iterdir():
            keep = 40 if part == "train" else 10
            for path in sorted(name.iterdir())[keep:]:
                path.unlink()
    if own_validation:
        shutil.copytree(folder / "test", folder / "val")
    recipe = tiny_recipe()
    data = replace(recipe.data, name="folder", num_known=6, unknown_settings=(2,), development=development)
    recipe = replace(recipe, data=data, space="")
    (plan,) = plan_splits(TrainingInputs.of([recipe], folder, []), Store(tmp_path / "store"))
    task = make_task(data, folder, recipe.seed)
    assert not plan.prepared
    assert (plan.images["train"], plan.images["val"]) == (len(task.train), len(task.val))
    assert plan.images["development"] == len(task.development)
    assert plan.images["test"] >= len(task.test)
