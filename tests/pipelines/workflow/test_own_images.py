"""What a run says of a user's own images before it trains: one line, and the command that shows more."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from pipeline_runs import Proser
from small_tasks import random_images

from pipelines.workflow.own_images import parts_of_notes, pointing_to_inspection, what_needs_a_look
from proser_core.config import DataConfig
from proser_core.data.group_notes import GROUPS
from proser_core.data.preparation import make_task
from proser_core.data.repeats import REPEATS
from proser_core.errors import DataError

DATA = DataConfig(name="folder", num_known=2, image_size=8, padding=1, unknown_settings=(), development="none")


def write(root: Path, *counts: int) -> Path:
    images = iter(random_images(sum(counts), 40))
    for number, count in enumerate(counts):
        (root / f"class {number}").mkdir(parents=True)
        for row in range(count):
            Image.fromarray(next(images)).save(root / f"class {number}" / f"{row}.png")
    return root


def test_a_folder_without_findings_is_not_mentioned(tmp_path: Path) -> None:
    assert what_needs_a_look(make_task(DATA, write(tmp_path, 8, 8)), DATA, tmp_path) == []


def test_what_is_found_is_named_once_with_the_command_that_shows_it(tmp_path: Path) -> None:
    root = write(tmp_path / "my images", 20, 4)
    (root / "class 1/copy.png").write_bytes((root / "class 0/0.png").read_bytes())
    data = replace(DATA, group_by="^(.)", group_near_duplicates=False)
    (line,) = what_needs_a_look(make_task(data, root), data, root)
    assert line.startswith("look at the images first (4 groups with images of more than one class; ")
    assert "; repeated images: " in line
    assert "images with more than one class: 1; " in line
    assert "; classes of fewer than 5 training images: class 1; classes of unequal size (" in line
    assert line.endswith(
        f": proser inspect '{root}' -o inspection.html --data.group-by '^(.)' --data.no-group-near-duplicates"
    )


def test_an_image_with_two_labels_is_named_as_the_group_that_it_is(tmp_path: Path) -> None:
    root = write(tmp_path, 8, 8)
    (root / "class 1/copy.png").write_bytes((root / "class 0/0.png").read_bytes())
    task = make_task(DATA, root)
    (line,) = what_needs_a_look(task, DATA, root)
    assert line.startswith("look at the images first (1 group with images of more than one class): proser inspect ")
    assert "1 with images of more than one class" in parts_of_notes(task.notes, DATA)[GROUPS]
    assert parts_of_notes(task.notes, DATA)[REPEATS] == []
    ungrouped = replace(DATA, group_near_duplicates=False)
    assert parts_of_notes(task.notes, ungrouped)[REPEATS] == ["images with more than one class: 1"]


def test_an_error_of_own_images_points_to_the_command_and_others_do_not() -> None:
    points = r"^broken\. `proser inspect own -o inspection\.html` shows all"
    with pytest.raises(DataError, match=points), pointing_to_inspection(DATA, Path("own")):
        raise DataError("broken")
    with pytest.raises(DataError, match=r"^broken$"), pointing_to_inspection(DataConfig(), Path("own")):
        raise DataError("broken")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_ray: None) -> Path:
    """The working directory of a command that must not start Ray."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    return tmp_path


@pytest.mark.parametrize("recipe", ["folder", "folder-pretrained"])
def test_a_run_stops_at_a_class_that_is_too_small_and_points_on(
    recipe: str, place: Path, proser: Proser, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place / "own", 6, 2)
    monkeypatch.setenv("TORCH_HOME", str(place / "no weights"))
    code, _, error = proser("run", recipe, "--data-dir", "own")
    assert code == 2
    assert "holds 2 images; a class needs 3 or more" in error
    assert "`proser inspect own -o inspection.html` shows all that is wrong with the images" in error
    assert len(error.splitlines()) == 1


def test_a_plan_stops_at_an_empty_file_and_points_on(place: Path, proser: Proser) -> None:
    (write(place / "own", 6, 6, 6) / "class 1/empty.jpg").touch()
    code, _, error = proser("run", "folder", "--data-dir", "own", "--dry-run")
    assert code == 2
    assert "empty.jpg: the image cannot be decoded (it is empty); repair or remove it. `proser inspect own " in error


COMMANDS = [["run", "folder", "--data-dir", "own"], ["inspect", "own"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_images_in_the_folder_of_no_class_are_refused_with_where_they_go(
    command: list[str], place: Path, proser: Proser
) -> None:
    write(place / "own", 3)
    (place / "own/class 0").rename(place / "flat")
    (place / "own").rmdir()
    (place / "flat").rename(place / "own")
    code, _, error = proser(*command)
    assert code == 2
    assert error.startswith(
        "proser: own holds 3 images, but none in a folder of a class; make own/CLASS/ for each class"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_of_groups_that_does_not_exist_is_refused_by_the_name_of_its_option(
    command: list[str], place: Path, proser: Proser
) -> None:
    write(place / "own", 6, 6)
    code, _, error = proser(*command, "--data.group-by", "nope.csv")
    assert code == 2
    assert error.endswith(
        "--data.group-by got nope.csv, which does not exist; give a table that does, a number of folder levels or a "
        "regular expression\n"
    )
