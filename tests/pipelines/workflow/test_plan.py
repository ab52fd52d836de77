"""The plan: what it counts before the images are read is what is then prepared, and what it says of memory."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pipeline_runs import tiny_recipe
from stored_sets import write_folder

from pipelines.cluster.cluster import Cluster
from pipelines.workflow.plan import SplitPlan, cost_lines, measure, plan_splits
from pipelines.workflow.training import TrainingInputs
from proser_core.config import ClusterConfig
from proser_core.data.preparation import make_task
from proser_core.jobs.probe import StepCost
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
    classes = {"num_known": 6, "unknown_settings": (2,), "development": development}
    data = replace(recipe.data, name="folder", group_near_duplicates=False, **classes)
    recipe = replace(recipe, data=data, space="")
    (plan,) = plan_splits(TrainingInputs.of([recipe], folder, []), Store(tmp_path / "store"))
    task = make_task(data, folder, recipe.seed)
    assert not plan.prepared
    assert (plan.images["train"], plan.images["val"]) == (len(task.train), len(task.val))
    assert plan.images["development"] == len(task.development)
    assert plan.images["test"] >= len(task.test)


class Nodes(Cluster):
    """A cluster of nodes that have room for so many workers by their memory."""

    def __init__(self, workers: int) -> None:
        super().__init__(ClusterConfig(), Path())
        self._workers = workers

    def concurrent_jobs(self, workers: int) -> int:
        return 4

    def call_on_workers(self, function: Any, arguments: Any, copies: int) -> list[StepCost]:
        """The first of them takes more memory than the others."""
        return [StepCost(0.1, 100.0, 10, (3 if copy == 0 else 1) * 2**30, 0, 0) for copy in range(copies)]

    def fitting(self, memory_bytes: int, workers: int) -> int:
        assert memory_bytes == 3 * 2**30, "the most that one took"
        return self._workers


@pytest.mark.parametrize(
    ("room", "line"),
    [
        (4, None),
        (3, "4 of finetune at a time need 12.0 GiB; the nodes have room for 3: give --cluster.max-concurrent 3"),
        (0, "4 of finetune at a time need 12.0 GiB; the nodes have room for 0: lower finetune.batch_size"),
    ],
)
def test_the_plan_says_where_memory_is_short_and_how_many_trainings_fit(room: int, line: str | None) -> None:
    images = {"train": 100, "val": 10, "development": 10, "test": 10}
    recipe = tiny_recipe()
    plan = SplitPlan(recipe, True, True, images, 4, tuple(replace(recipe.finetune, beta=float(n)) for n in range(4)))
    lines = cost_lines([plan], measure([plan], Nodes(room), bf16=False))
    assert "3.0 GiB a worker" in lines["a fine-tune"]
    assert lines.get("memory") == line
