"""What is refused of a run that knows all classes, and what is left where its proxy fails."""

import io
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_digits import NAMES, own_recipe
from pipeline_runs import RunFolder, printed, write_space
from rich.console import Console

from pipelines.commands.run import run_recipe
from pipelines.recipes import digits as digits_recipe
from pipelines.recipes import folder
from pipelines.tracking.runs import PROXY, PROXY_OF
from pipelines.tracking.server import NOTE
from pipelines.workflow.refit import proxy_of
from pipelines.workflow.requests import RunRequest, SweepRequest
from pipelines.workflow.sweeping import sweep
from proser_core.config import CalibrationConfig, ClusterConfig
from proser_core.data.splits.drawing import draw_split
from proser_core.errors import ConfigError, DataError, TrainingError, first_line
from proser_core.jobs.trials import check_recipe

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures", "empty_programs")


def test_broken_images_of_any_class_are_found_before_anything_trains(
    my_images: Path, run_folder: RunFolder, tmp_path: Path
) -> None:
    root = tmp_path / "broken"
    shutil.copytree(my_images, root)
    for name in NAMES:
        (root / name / "0.png").write_bytes(b"no image")
        recipe = replace(own_recipe(), model_name="never")
        with pytest.raises(DataError, match=f"{name}/0.png: the image"):
            printed(run_recipe, RunRequest(recipe, root, tmp_path / "storage"))
        shutil.copy(my_images / name / "0.png", root / name / "0.png")
    assert not (tmp_path / "storage/pretrain").exists()
    statuses = {parent.info.status for parent in run_folder.parents()}
    assert "FAILED" in statuses
    assert "RUNNING" not in statuses


def test_a_space_whose_file_was_edited_is_another_run(my_images: Path, run_folder: RunFolder) -> None:
    diverges = replace(own_recipe(), pretrain=replace(own_recipe().pretrain, lr=1e30), seed=8)
    before = {parent.info.run_id for parent in run_folder.parents()}
    for beta in (1.0, 2.0):
        write_space(run_folder.root, "edited", f'{{"beta": tune.grid_search([{beta}])}}')
        with pytest.raises(TrainingError, match="pretraining of class split 0 failed"):
            printed(
                run_recipe,
                RunRequest(replace(diverges, space=str(run_folder.root / "edited.py")), my_images, run_folder.storage),
            )
    new = [parent.info.run_name for parent in run_folder.parents() if parent.info.run_id not in before]
    assert sorted(new) == ["folder", "folder", "folder-proxy", "folder-proxy"]


def test_a_proxy_that_fails_ends_both_runs_as_failed_with_the_reason(my_images: Path, run_folder: RunFolder) -> None:
    diverges = replace(own_recipe(), pretrain=replace(own_recipe().pretrain, lr=1e30), seed=7)
    before = {parent.info.run_id for parent in run_folder.parents()}
    with pytest.raises(TrainingError, match="pretraining of class split 0 failed") as raised:
        printed(run_recipe, RunRequest(diverges, my_images, run_folder.storage))
    new = [parent for parent in run_folder.parents() if parent.info.run_id not in before]
    shown = {parent.info.run_name: (parent.info.status, parent.data.tags[NOTE]) for parent in new}
    assert shown == dict.fromkeys(("folder", "folder-proxy"), ("FAILED", first_line(raised.value)))
    runs = {parent.info.run_name: parent for parent in new}
    assert runs["folder"].data.tags[PROXY] == runs["folder-proxy"].info.run_id
    assert runs["folder-proxy"].data.tags[PROXY_OF] == runs["folder"].info.run_id


@pytest.mark.parametrize(
    ("scenes", "said"),
    [
        (
            {"eight": "123", "five": "4", "four": "5"},
            r"proxy: 2 classes are known; f.* held out to choose by; batches of \d\d and \d\d$",
        ),
        ({"eight": "123", "five": "4", "four": "4"}, r"a proxy cannot be made \("),
    ],
    ids=["another draw", "none"],
)
def test_a_draw_of_the_proxys_classes_that_leaves_no_images_is_not_the_end(
    scenes: dict[str, str], said: str, my_images: Path, run_folder: RunFolder, tmp_path: Path
) -> None:
    """Two classes of one scene cannot be validated, and one of a scene that is trained on cannot choose; a proxy has
    batches of its own images."""
    for name, numbers in scenes.items():
        for row, path in enumerate(sorted((my_images / name).iterdir())):
            folder_of_scene = tmp_path / "images" / name / numbers[row % len(numbers)]
            folder_of_scene.mkdir(parents=True, exist_ok=True)
            (folder_of_scene / path.name).symlink_to(path)
    own = replace(own_recipe(), pretrain=replace(own_recipe().pretrain, lr=1e30, batch_size=4096))
    data = replace(own.data, group_by="1", group_near_duplicates=False)
    splits = (replace(data, split_index=index) for index in range(99))
    equal = np.full(3, 60)
    first = next(
        each for each in splits if draw_split(proxy_of(replace(own, data=each), equal).data, 3).known == (1, 2)
    )
    out = io.StringIO()
    with pytest.raises(TrainingError, match="pretraining of class split"):
        run_recipe(
            RunRequest(replace(own, data=first), tmp_path / "images", run_folder.storage), Console(file=out, width=999)
        )
    assert re.search(said, out.getvalue(), re.MULTILINE)


def test_a_space_that_is_none_is_refused_before_the_images_are_read(
    my_images: Path, run_folder: RunFolder, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="did you mean 'own_images'"):
        printed(run_recipe, RunRequest(replace(own_recipe(), space="own_image"), my_images, tmp_path))
    assert not (tmp_path / "prepare").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calibration": CalibrationConfig(score="auto", development=("noize",))}, "noize"),
        ({"stop_early": True, "cluster": ClusterConfig(num_workers=2, pretrain_workers=1)}, "num_workers is 2"),
    ],
)
def test_what_the_proxy_could_not_use_is_refused_before_the_images_are_read(
    options: dict[str, Any], message: str, my_images: Path, tmp_path: Path
) -> None:
    recipe = replace(own_recipe(), **options)
    with pytest.raises(ConfigError, match=message):
        printed(run_recipe, RunRequest(recipe, my_images, tmp_path / "storage"))
    assert not (tmp_path / "storage" / "prepare").exists()


@pytest.mark.parametrize(
    "held_out",
    [{}, {"num_known": 4, "development": "held-out-1", "unknown_settings": (1,)}],
    ids=["by a proxy", "here"],
)
def test_mirrored_images_are_warned_of_once_where_flips_are_found_to_harm(
    held_out: dict[str, Any], my_images: Path, run_folder: RunFolder
) -> None:
    own, out = own_recipe(), io.StringIO()
    own = replace(own, data=replace(own.data, **held_out), calibration=CalibrationConfig(mirror=True))
    diverges = replace(own, pretrain=replace(own.pretrain, lr=1e30), seed=9)
    with pytest.raises(TrainingError, match="pretraining of class split 0 failed"):
        run_recipe(RunRequest(diverges, my_images, run_folder.storage), Console(file=out, width=200))
    assert out.getvalue().count("calibration.mirror averages with mirrored images") == 1


def test_a_storage_among_the_images_is_refused(my_images: Path, run_folder: RunFolder) -> None:
    with pytest.raises(ConfigError, match=r"--storage writes to .*taken for classes.* or set --storage elsewhere"):
        printed(run_recipe, RunRequest(own_recipe(), my_images, my_images / "storage"))
    assert not (my_images / "storage").exists()
    with pytest.raises(ConfigError, match=r"the tracking database \(MLFLOW_TRACKING_URI\) writes to"):
        printed(run_recipe, RunRequest(own_recipe(), run_folder.root, run_folder.root.parent / "elsewhere"))


def test_a_sweep_without_unknown_classes_is_refused(my_images: Path, tmp_path: Path) -> None:
    recipe = replace(digits_recipe(), data=replace(digits_recipe().data, unknown_settings=()))
    with pytest.raises(ConfigError, match=r"data\.unknown_settings is \(\).*give both"):
        printed(sweep, SweepRequest(recipe, ("trade_off",), (0,), None, tmp_path))


def test_all_classes_leave_none_to_test_or_choose_by() -> None:
    wrong = {"unknown_settings": (3,), "development": "held-out-2", "unknown": "cifar100", "split_family": "neal"}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=re.escape(f"data.{name} is {value!r}")):
            replace(folder().data, **{name: value})


def test_nothing_to_choose_by_needs_an_empty_space() -> None:
    data = replace(folder().data, num_known=4)
    with pytest.raises(ConfigError, match="space is 'own_images'; it must be empty"):
        replace(folder(), data=data)


def test_a_checkpoint_of_all_classes_does_not_fit_the_proxy(my_images: Path, run_folder: RunFolder) -> None:
    with pytest.raises(ConfigError, match=r"--pretrained got .*any\.pth, and with --data\.num-known 0 a run first"):
        printed(run_recipe, RunRequest(own_recipe(), my_images, run_folder.storage, my_images / "any.pth"))


def test_what_cannot_run_two_trainings_says_so() -> None:
    with pytest.raises(ConfigError, match="as only `proser run` does"):
        check_recipe(folder())
