"""Images copied into the folders of their new classes: names that fit, and files that cannot be read."""

import os
import shutil
from pathlib import Path

import pytest
from reviews import png

from pipelines.inference.review_names import IMAGE_COLUMNS, IMAGES, NAMES, add_images, read_named
from proser_core.data.readers.walking import image_paths
from proser_core.errors import DataError


@pytest.mark.parametrize("name", ["photo", ".photo.png"])
def test_an_image_that_no_run_would_see_is_named_and_not_copied(tmp_path: Path, name: str) -> None:
    image = png(tmp_path)
    shutil.copy(image, tmp_path / name)
    (tmp_path / "mine" / "new").mkdir(parents=True)
    shutil.copy(image, tmp_path / "mine" / "new" / name)
    added = add_images({"new": [tmp_path / name, image]}, tmp_path / "mine")
    assert [failure.name for failure in added.failures] == [str(tmp_path / name)]
    assert "so that no run would see it; copy it to" in added.failures[0].reason
    assert image_paths(tmp_path / "mine" / "new") == [str(tmp_path / "mine" / "new" / "black.png")]


def test_classes_that_differ_in_case_may_be_there_and_not_become_so(tmp_path: Path) -> None:
    image, mine = png(tmp_path), tmp_path / "mine"
    for name in ("a", "A", "b"):
        (mine / name).mkdir(parents=True)
    assert add_images({"new": [image], "a": [image], "A": [image]}, mine).copied == {"new": 1, "a": 1, "A": 1}
    for names in (("B",), ("b", "B"), ("c", "C")):
        with pytest.raises(DataError, match="differ in upper and lower case alone"):
            add_images({name: [image] for name in names}, mine)


def test_files_of_a_class_that_cannot_be_read_are_named_and_stay(tmp_path: Path) -> None:
    image, mine = png(tmp_path), tmp_path / "mine"
    (mine / "cat").mkdir(parents=True)
    (mine / "cat" / image.name).symlink_to("gone.png")
    os.mkfifo(mine / "cat" / "pipe.png")
    added = add_images({"cat": [image, mine / "cat" / "pipe.png"]}, mine)
    assert [Path(each.name).name for each in added.failures] == ["black.png", "pipe.png", "pipe.png"]
    assert "cannot be read (No such file" in added.failures[0].reason
    assert added.copied == {"cat": 1}
    assert os.readlink(mine / "cat" / image.name) == "gone.png"


@pytest.mark.parametrize(("name", "reason"), [("dog", "is not a folder; rename it"), ("d" * 300, "name too long")])
def test_a_class_whose_folder_cannot_be_is_refused_before_anything_is_copied(
    tmp_path: Path, name: str, reason: str
) -> None:
    image, mine = png(tmp_path), tmp_path / "mine"
    mine.mkdir()
    (mine / "dog").write_text("a file")
    with pytest.raises(DataError, match=f"(?i){reason}"):
        add_images({"cat": [image], name: [image]}, mine)
    assert [path.name for path in mine.iterdir()] == ["dog"]


def test_images_with_the_longest_names_are_copied(tmp_path: Path) -> None:
    image, mine = png(tmp_path), tmp_path / "mine"
    image = image.rename(tmp_path / f"{'猫' * 83}.png")
    assert add_images({"cat": [image]}, mine).copied == {"cat": 1}
    image.write_bytes(image.read_bytes() + b"another image")
    assert add_images({"cat": [image]}, mine).copied == {"cat": 1}
    assert len(image_paths(mine / "cat")) == 2


def test_a_table_that_is_no_csv_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / IMAGES).write_text(f"{','.join(IMAGE_COLUMNS)}\n")
    (tmp_path / NAMES).write_text(f"group,name\n1,{'x' * 200_000}\n")
    with pytest.raises(DataError, match=r"names\.csv cannot be read \(field larger than field limit"):
        read_named(tmp_path)
