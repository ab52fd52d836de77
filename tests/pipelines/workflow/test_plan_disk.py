"""What a plan needs of the disk: what its trainings leave and a little more; it is refused where that does not fit."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from training_jobs import ignore

from pipelines.storage.storage import Storage
from pipelines.workflow.plan.table import Plan, check_disk
from pipelines.workflow.plan.trainings import Cost, SplitPlan
from pipelines.workflow.trained_split import TrainedSplit
from pipelines.workflow.training import finetunes_of
from proser_core.data.tasks import TaskSummary
from proser_core.errors import ConfigError
from proser_core.jobs import spec
from proser_core.jobs.probe import StepCost
from proser_core.jobs.worker import run_job

MIB = 2**20


def cost(weights: int, at_once: int = 1) -> Cost:
    return Cost(StepCost(0.1, 100.0, weights, 0, 0, 0), 1, at_once, None)


def test_it_is_what_the_images_and_a_trial_take_and_room_for_checkpoints(split: TrainedSplit, tmp_path: Path) -> None:
    trial = split.trials(finetunes_of(split.recipe, []), Storage(tmp_path))[0]
    run_job(trial.job(split.task, split.pretrained), ignore)
    left = sum(path.stat().st_size for folder in (trial.folder, split.task.path) for path in folder.iterdir())
    weights = (trial.folder / spec.WEIGHTS).stat().st_size
    plan = SplitPlan(split.recipe, False, True, TaskSummary.read(split.task.path).counts, 1, 1, ((1,),))
    assert left <= Plan([plan], {"finetune": cost(weights)}).disk <= left + 4 * weights
    assert Plan([replace(plan, prepared=True, missing=0)], {}).disk == 0


def test_points_that_pause_keep_their_checkpoints_and_trainings_side_by_side_have_one_each(split: TrainedSplit) -> None:
    images = {"train": 100, "val": 10, "development": 10, "test": 10}
    through = SplitPlan(split.recipe, True, True, images, 9, 9, ((1,) * 9,))
    paused = replace(through, epochs=((), (1,) * 9, (1,) * 3))
    needed = [Plan([plan], {"finetune": cost(MIB)}).disk for plan in (through, paused)]
    assert needed[1] - needed[0] == 9 * 3 * MIB, "weights, momentum and an average of each in the first rung"
    assert Plan([through], {"finetune": cost(MIB, at_once=3)}).disk - needed[0] == 2 * 4 * MIB


@pytest.mark.parametrize(
    ("needed", "said"), [(41 * MIB, "41.0 MiB"), (3 * 2**30, "3.0 GiB"), (6 * MIB, ""), (0, "")], ids=str
)
def test_more_than_is_free_is_refused(needed: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=6 * MIB))
    if not said:
        check_disk(needed, Storage(tmp_path))
        return
    message = rf"{tmp_path} has 6\.0 MiB free, and the plan needs about {said}; .* another folder with --storage"
    with pytest.raises(ConfigError, match=message):
        check_disk(needed, Storage(tmp_path))
