"""Findings in folders of real scenes: each planted fault is found where it is, and a clean folder has none."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scenes import as_jpeg, scene

from proser_core.data.findings import Finding, doubted, findings_of
from proser_core.data.grouping import Grouping
from proser_core.data.inspection import Inspection, inspect_folder

CLASSES = ("flower", "temple")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two classes of six different scenes, without a fault."""
    for number in range(12):
        add(scene(number), tmp_path / "own" / CLASSES[(number + 1) % 2] / f"{number}.png")
    return tmp_path / "own"


def add(image: Image.Image, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return path


def found_in(root: Path, grouping: Grouping = Grouping()) -> tuple[Inspection, dict[str, Finding]]:  # noqa: B008
    inspection = inspect_folder(root, grouping)
    return inspection, {finding.title: finding for finding in findings_of(inspection)}


def sets(inspection: Inspection, finding: Finding) -> list[list[str]]:
    paths: Sequence[str] = [file.path for file in inspection.files]
    return [[Path(paths[row]).relative_to(inspection.root).as_posix() for row, _ in each] for each in finding.sets]


def test_a_clean_folder_has_no_finding(root: Path) -> None:
    assert found_in(root)[1] == {}


def test_files_that_cannot_be_read_come_first_with_their_reasons(root: Path) -> None:
    (root / "flower/broken.jpg").write_bytes(b"no image")
    shutil.copy(root / "flower/1.png", root / "temple/copy.png")
    _, findings = found_in(root)
    title, first = next(iter(findings.items()))
    assert (title, first.count) == ("files that cannot be read", 1)
    assert "broken.jpg: the image cannot be decoded (it is none of BMP" in first.lines[0]


def test_images_of_other_formats_and_beside_the_folders_of_classes_are_named(root: Path) -> None:
    (root / "flower/phone.HEIC").write_bytes(b"heic")
    (root / "flower/notes.txt").write_bytes(b"text")
    add(scene(20), root / "loose.png")
    add(scene(21), root / "temple/read.jfif.png").rename(root / "temple/read.jfif")
    inspection, findings = found_in(root)
    assert {title: finding.lines for title, finding in findings.items()} == {
        "images that are not read": ["flower/phone.HEIC", "loose.png"]
    }
    assert len(inspection.photos) == 13


def test_repeats_are_told_apart_by_content_and_by_class(root: Path) -> None:
    shutil.copy(root / "flower/1.png", root / "temple/same.png")
    add(as_jpeg(scene(3)), root / "temple/near.jpg")
    shutil.copy(root / "temple/0.png", root / "temple/twice.png")
    add(scene(5, frame=1), root / "flower/frame.png")
    inspection, findings = found_in(root)
    assert {title: sets(inspection, finding) for title, finding in findings.items()} == {
        "the same file in different classes": [["flower/1.png", "temple/same.png"]],
        "look-alikes in different classes": [["flower/3.png", "temple/near.jpg"]],
        "the same file in one class": [["temple/0.png", "temple/twice.png"]],
        "look-alikes in one class": [["flower/5.png", "flower/frame.png"]],
    }
    _, findings = found_in(root, Grouping(by_looks=False))
    assert list(findings) == ["the same file in different classes", "the same file in one class"]


def test_a_file_of_two_classes_and_a_copy_of_it_is_one_set_of_each_kind(root: Path) -> None:
    for name in ("temple/a.png", "temple/b.png"):
        shutil.copy(root / "flower/1.png", root / name)
    inspection, findings = found_in(root)
    assert {title: sets(inspection, finding) for title, finding in findings.items()} == {
        "the same file in different classes": [["flower/1.png", "temple/a.png", "temple/b.png"]],
        "the same file in one class": [["temple/a.png", "temple/b.png"]],
    }


def test_repeats_between_own_parts_are_leaks(root: Path) -> None:
    root.rename(root.with_name("train"))
    for part, first in (("val", 20), ("test", 30)):
        for number, name in enumerate(CLASSES):
            add(scene(first + 1 - number), root.parent / part / name / "1.png")
    shutil.copy(root.parent / "train/flower/1.png", root.parent / "test/flower/leak.png")
    add(scene(3, frame=1), root.parent / "val/flower/leak.png")
    add(scene(3, frame=2), root.parent / "train/flower/4.png")
    inspection, findings = found_in(root.parent)
    assert {title: sets(inspection, finding) for title, finding in findings.items()} == {
        "the same file in different parts": [["train/flower/1.png", "test/flower/leak.png"]],
        "look-alikes in different parts": [["train/flower/3.png", "val/flower/leak.png", "train/flower/4.png"]],
        "look-alikes in one class": [["train/flower/3.png", "train/flower/4.png"]],
    }


class TestClasses:
    def test_too_small_to_be_divided_as_a_run_would_refuse_it(self, root: Path) -> None:
        add(scene(100), root / "lamp/1.png")
        (root / "owl").mkdir()
        (root / "flower/1.png").rename(root / "lamp/2.png")
        _, findings = found_in(root)
        finding = findings["classes with too few images"]
        assert list(finding.lines) == ["lamp: 2 images", "owl: 0 images"]
        assert finding.advice.startswith("A class needs 3 or more, to train and to draw validation and test images")

    @pytest.mark.parametrize(
        ("parts", "least"), [(("train", "val"), 2), (("train", "test"), 2), (("train", "val", "test"), 1)]
    )
    def test_own_parts_leave_less_to_draw(self, root: Path, parts: tuple[str, ...], least: int) -> None:
        for index, part in enumerate(parts):
            for number, name in enumerate(CLASSES):
                add(scene(50 + 2 * index + number), root.parent / "all" / part / name / "1.png")
        inspection, findings = found_in(root.parent / "all")
        assert inspection.listing.least == least
        title = "classes with too few images" if least > 1 else "classes of fewer than 5 images"
        assert list(findings[title].lines) == [f"{name}: 1 image" for name in CLASSES]

    def test_a_part_without_images_of_a_class(self, root: Path) -> None:
        root.rename(root.with_name("train"))
        add(scene(51), root.parent / "test/flower/1.png")
        (root.parent / "test/temple").mkdir()
        _, findings = found_in(root.parent)
        assert list(findings["classes with too few images"].lines) == ["temple: none in test/"]

    def test_of_too_few_groups(self, root: Path) -> None:
        for frame in range(5):
            add(scene(100, frame // 2), root / "burst" / f"{frame}.png")
        _, findings = found_in(root)
        finding = findings["classes of too few groups"]
        assert list(finding.lines) == ["burst: 1 of 5 images"]
        assert "3 are needed" in finding.advice

    def test_of_few_images(self, root: Path) -> None:
        for number in range(2):
            add(scene(70 + number), root / "lamp" / f"{number}.png")
        assert "classes of fewer than 5 images" not in found_in(root)[1], "too few to be read at all"
        add(scene(72), root / "lamp" / "2.png")
        assert list(found_in(root)[1]["classes of fewer than 5 images"].lines) == ["lamp: 3 images"]

    def test_of_unequal_size(self, root: Path) -> None:
        for number in range(3, 13, 2):
            (root / "flower" / f"{number}.png").unlink(missing_ok=True)
        for number in (41, 43):
            add(scene(number), root / "flower" / f"{number}.png")
        for number in range(60, 66, 2):
            add(scene(number), root / "temple" / f"{number}.png")
        _, findings = found_in(root)
        assert list(findings["classes of unequal size (3.0 to 1)"].lines) == ["temple: 9 images", "flower: 3 images"]
        add(scene(80), root / "lamp" / "0.png")
        assert "classes of unequal size (3.0 to 1)" in found_in(root)[1], "one that must go anyway does not count"
        shutil.rmtree(root / "lamp")
        (root / "temple" / "64.png").unlink()
        assert not any("unequal" in title for title in found_in(root)[1])

    def test_one_alone_has_nothing_to_be_told_apart_from(self, root: Path) -> None:
        shutil.rmtree(root / "temple")
        assert list(found_in(root)[1]) == ["one class alone"]

    def test_without_a_training_image_that_can_be_read(self, root: Path) -> None:
        root.rename(root.with_name("test"))
        for name in CLASSES:
            (root.parent / "train" / name).mkdir(parents=True)
            (root.parent / "train" / name / "1.png").write_bytes(b"none")
        assert list(found_in(root.parent)[1]) == ["files that cannot be read", "classes with too few images"]

    def test_with_a_name_that_a_run_refuses(self, root: Path) -> None:
        (root / "temple").rename(root / "Unknown")
        _, findings = found_in(root)
        assert "'Unknown' would mean two things" in findings["class names that cannot be used"].lines[0]


def test_odd_sizes_shapes_and_colours_are_shown_with_what_is_odd(root: Path) -> None:
    add(scene(20).resize((30, 30)), root / "temple/small.png")
    add(scene(22).resize((480, 490)), root / "temple/large.png")
    add(scene(24).resize((361, 120)), root / "temple/wide.png")
    add(scene(26).convert("L").convert("RGB"), root / "temple/grey.png")
    inspection, findings = found_in(root)
    shown = {title: (sets(inspection, each), each.sets[0][0][1]) for title, each in findings.items()}
    assert shown == {
        "very small images": ([["temple/small.png"]], "30 x 30"),
        "very large images": ([["temple/large.png"]], "480 x 490"),
        "images more than 3 times as long as wide": ([["temple/wide.png"]], "361 x 120"),
        "grey images among colour ones": ([["temple/grey.png"]], ""),
    }


def test_doubted_labels_are_captioned_with_the_class_of_the_neighbours() -> None:
    finding = doubted(np.array([7, 2]), ["cat", "dog"], np.array([1.0, 0.6]), "proser version 1")
    assert (finding.count, list(finding.sets)) == (2, [[(7, "100 % cat")], [(2, "60 % dog")]])
