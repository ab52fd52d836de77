"""A folder of images is inspected by what a run reads it with, and nothing in it is refused."""

from pathlib import Path

import pytest
from scenes import write_scenes

from proser_core.data.grouping import Grouping
from proser_core.data.inspection import inspect_folder
from proser_core.data.mirroring import judge_mirroring
from proser_core.data.readers.image_folders import FolderLayout
from proser_core.errors import DataError


def write(root: Path, scenes: int = 4, frames: int = 2) -> Path:
    """Temples and flowers in bursts, one folder per scene."""
    return write_scenes(root, "scene{scene}/{frame}.png", scenes, frames)


@pytest.mark.parametrize(
    "grouping", [Grouping(), Grouping("1"), Grouping(by_looks=False), Grouping("1", by_looks=False)]
)
def test_groups_are_those_of_a_run(tmp_path: Path, grouping: Grouping) -> None:
    root = write(tmp_path)
    found = inspect_folder(root, grouping)
    parts = [FolderLayout(grouping).index(root, part, size=8) for part in ("train", "test")]
    groups = {}
    for part in parts:
        assert part.groups is not None
        groups |= zip(map(bytes, part.images.files[part.images.places["file"]]), part.groups.tolist(), strict=True)
    assert {file.path.encode(): group for file, group in zip(found.files, found.groups.tolist(), strict=True)} == groups
    assert bool(len(found.pairs)) == grouping.by_looks


def test_flips_are_judged_by_all_images_of_training_and_test(tmp_path: Path) -> None:
    root = write(tmp_path, scenes=8, frames=1)
    found = inspect_folder(root, Grouping())
    images = FolderLayout().read(root, "train", size=32)
    tested = FolderLayout().read(root, "test", size=32)
    assert found.mirroring == judge_mirroring(images.joined(tested), found.listing.class_names, seed=0)


def test_what_a_run_stops_at_is_kept_as_a_failure_or_counted(tmp_path: Path) -> None:
    root = write(tmp_path)
    (root / "temple" / "broken.jpg").write_bytes(b"no image")
    (root / "temple" / "gone.jpg").symlink_to("nowhere")
    (root / "owl").mkdir()
    found = inspect_folder(root, Grouping())
    assert [Path(each.name).name for each in found.failures] == ["broken.jpg", "gone.jpg"]
    assert found.counts().tolist() == [8, 0, 8]
    assert len(found.photos) == len(found.files) == len(found.groups) == 16


def test_progress_counts_every_file(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    inspect_folder(write(tmp_path), Grouping(), lambda done, total: seen.append((done, total)))
    assert seen[-1] == (16, 16)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: root / "nowhere", "nowhere is not a folder; need a folder of images for each class"),
        (lambda root: root, "holds no folder of images; need a folder of images for each class"),
        (
            lambda root: [(root / f"{n}.png").touch() for n in (1, 2)] and root,
            "holds 2 images, .* make .*/CLASS/ for each",
        ),
        (lambda root: (root / "owl").mkdir() or (root / "owl/a.png").touch() or root, "can be read, of 1;"),
    ],
    ids=["missing", "empty", "no classes", "all broken"],
)
def test_a_folder_without_an_image_is_refused(tmp_path: Path, make, message: str) -> None:
    with pytest.raises(DataError, match=message):
        inspect_folder(make(tmp_path), Grouping())


def test_a_rule_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.group_by 'session' is found in no name"):
        inspect_folder(write(tmp_path), Grouping("session"))
