"""The plan: what it counts before the images are read is what is then prepared, and what it says of memory."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from digit_folders import write_parts
from training_jobs import tiny_recipe

from pipelines.cluster.cluster import Cluster
from pipelines.storage.storage import Storage
from pipelines.workflow.plan.own_networks import MissingNetwork, OwnNetworksPlan
from pipelines.workflow.plan.table import Plan
from pipelines.workflow.plan.trainings import Cost, SplitPlan, bytes_of_crops, measure, plan_splits, seconds_left
from pipelines.workflow.training import TrainingInputs
from proser_core.config import CalibrationConfig, ClusterConfig
from proser_core.data.augmentation.crop_tables import padded_versions
from proser_core.data.preparation import make_task
from proser_core.errors import ClusterError
from proser_core.jobs.own_networks.probe import NetworkCost
from proser_core.jobs.probe import StepCost


@pytest.mark.parametrize("development", ["none", "held-out-2"])
@pytest.mark.parametrize("own_validation", [False, True])
def test_images_of_balanced_classes_are_counted_by_role(own_validation: bool, development: str, tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "images", 8, {"train": 40, "test": 10})
    if own_validation:
        shutil.copytree(folder / "test", folder / "val")
    recipe = tiny_recipe()
    classes = {"num_known": 6, "unknown_settings": (2,), "development": development}
    data = replace(recipe.data, name="folder", group_near_duplicates=False, **classes)
    recipe = replace(recipe, data=data, space="")
    (plan,) = plan_splits(TrainingInputs.of([recipe], folder, []), Storage(tmp_path / "store"))
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
        (3, "4 fine-tunes side by side need 12.0 GiB; the nodes have room for 3: give --cluster.max-concurrent 3"),
        (0, "4 fine-tunes side by side need 12.0 GiB; the nodes have room for 0: lower finetune.batch_size"),
    ],
)
def test_the_plan_says_where_memory_is_short_and_how_many_trainings_fit(room: int, line: str | None) -> None:
    images = {"train": 100, "val": 10, "development": 10, "test": 10}
    recipe = tiny_recipe()
    plan = SplitPlan(recipe, True, True, images, 4, 4, ((1, 1, 1, 1),))
    planned = Plan([plan], measure([plan], Nodes(room)))
    lines = planned.cost_lines(planned.times())
    assert "3.0 GiB per worker" in lines["a fine-tune"]
    assert lines.get("memory") == line


@pytest.mark.parametrize(("takes", "advice"), [(60, "Set cluster.gpus_per_worker to at least 0.75"), (98, "Lower")])
def test_no_share_of_a_gpu_above_all_of_it_is_advised(takes: int, advice: str) -> None:
    """A step of a pretraining takes so many GiB of 80."""

    class Gpus(Nodes):
        def call_on_workers(self, function: Any, arguments: Any, copies: int) -> list[StepCost]:
            return [StepCost(0.1, 100.0, 10, 3 * 2**30, takes * 2**30, 80 * 2**30)]

        def with_idle_cores(self, trainings: int, workers: int) -> Cluster:
            return self

    recipe = replace(tiny_recipe(), cluster=ClusterConfig(gpus_per_worker=0.5))
    plan = SplitPlan(recipe, True, False, {"train": 0}, 0, 0, ((),))
    with pytest.raises(ClusterError, match=rf"a pretraining takes {takes}.0 GiB. {advice}"):
        measure([plan], Gpus(4))


def test_epochs_of_points_that_are_stopped_early_take_no_time() -> None:
    """As many train side by side as there are in a rung, however many places there are."""
    recipe, images = tiny_recipe(), {"train": 3200, "val": 0, "development": 0, "test": 0}
    epoch, rungs = 0.1 * 3200 / recipe.finetune.batch_size, ((4,) * 25, (8,) * 9, (8,) * 3)
    plans = [SplitPlan(recipe, True, True, images, 25, 25, each) for each in (((20,) * 25,), ((), *rungs))]
    for at_once, whole, halved in ((1, 500, 196), (25, 20, 4 + 8 + 8)):
        costs = {"finetune": Cost(StepCost(0.1, 100.0, 10, 0, 0, 0), 1, at_once, None)}
        assert seconds_left(plans[:1], costs) == pytest.approx({"fine-tune": whole * epoch})
        assert seconds_left(plans[1:], costs) == pytest.approx({"fine-tune": halved * epoch})
    lines = [Plan([each], costs).cost_lines({"fine-tune": 1.0}) for each in plans]
    assert ["points that fall behind are stopped" in each["time"] for each in lines] == [False, True]


@pytest.mark.parametrize(("trainings", "at_once", "waves"), [(5, 4, 2), (26, 16, 2), (8, 4, 2), (3, 4, 1)])
def test_trainings_that_find_no_place_wait_for_one_that_ends(trainings: int, at_once: int, waves: int) -> None:
    recipe, images = tiny_recipe(), {"train": 3200, "val": 0, "development": 0, "test": 0}
    costs = {kind: Cost(StepCost(0.1, 100.0, 10, 0, 0, 0), 1, at_once, None) for kind in ("pretrain", "finetune")}
    plan = SplitPlan(recipe, True, False, images, 1, 1, ((3,),))
    alone, found = seconds_left([plan], costs), seconds_left([plan] * trainings, costs)
    assert found == pytest.approx({stage: waves * seconds for stage, seconds in alone.items()})
    own = [MissingNetwork("C2AE", 2, 100, 0, 6, wave=0)] * trainings + [MissingNetwork("CROSR", 1, 100, 0, 6, wave=1)]
    rates = {name: NetworkCost(0.5, 10) for name in ("C2AE", "CROSR")}
    assert OwnNetworksPlan(own, rates, at_once).seconds == pytest.approx(waves * 100 + 50)


SECONDS = {"finetune": 1.0, "pretrain": 4.0}
"""Of 100 images, that a network of either kind scores."""


def passes(networks: int = 3, *, mirror: bool = True, gpus: float = 0.0, features: Any = "auto") -> float:
    """Seconds of the passes over 100 images, where two trainings run at a time."""
    recipe = tiny_recipe()
    recipe = replace(
        recipe,
        calibration=CalibrationConfig(mirror=mirror, score="" if mirror else "auto"),
        cluster=ClusterConfig(gpus_per_worker=gpus),
        network=replace(recipe.network, features=features),
    )
    plan = SplitPlan(recipe, True, False, {"train": 70, "val": 10, "development": 0, "test": 20}, 1, 0, ((),))
    costs = {kind: Cost(StepCost(0.1, 100 / each, 10, 0, 0, 0), 1, 2, None) for kind, each in SECONDS.items()}
    return Plan([plan], costs).seconds_of_passes(networks)


def test_passes_of_an_evaluation_are_counted_where_they_are_made() -> None:
    assert passes(mirror=False) == pytest.approx(3 * 1.0 / 2)
    assert passes() == pytest.approx(2 * passes(mirror=False))
    assert passes(gpus=1.0) == pytest.approx(2 * passes()), "one after the other, on one GPU"
    assert passes(features="frozen", mirror=False) == 0, "there are embeddings"
    assert passes(features="frozen") == pytest.approx(2 * 3 * 4.0 / 2), "at the rate of the backbone"
    assert passes(features="head-first", mirror=False) == pytest.approx(2 * 1.0 / 2), "but the pretrained one"


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("augmentation", ["light", "none"])
def test_images_take_memory_of_a_gpu_as_they_lie_there(flip: bool, augmentation: Any) -> None:
    recipe = tiny_recipe()
    recipe = replace(recipe, data=replace(recipe.data, flip=flip, augmentation=augmentation))
    images = np.zeros((7, recipe.data.image_size, recipe.data.image_size, 3), np.uint8)
    lying = padded_versions(images, recipe.data.border, recipe.data.flips)
    assert bytes_of_crops(SplitPlan(recipe, True, True, {"train": 7}, 1, 0, ((),))) == lying.nbytes
