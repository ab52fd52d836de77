"""The page of an inspection has few pictures, however much is found; its facts are those of the folder."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_tasks import random_images

from pipelines.reports import inspection_page as module
from pipelines.reports.inspection_page import class_rows, facts_of, inspection_page
from proser_core.data.findings import Finding, findings_of
from proser_core.data.grouping import Grouping
from proser_core.data.inspection import Inspection, inspect_folder


@pytest.fixture
def inspection(tmp_path: Path) -> Inspection:
    """Of own parts, one group of which is divided; 20 images in all."""
    images = iter(random_images(20, 40))
    for part, name, count in (("train", "a", 9), ("train", "b", 5), ("test", "a", 4), ("test", "b", 2)):
        folder = tmp_path / part / name
        folder.mkdir(parents=True)
        for row in range(count):
            Image.fromarray(next(images)).resize((40 + row, 40)).save(folder / f"{row}.png")
    return inspect_folder(tmp_path, Grouping(r"^(\d)", by_looks=False))


def test_facts_count_images_by_part_and_groups_that_parts_divide(inspection: Inspection) -> None:
    facts = facts_of(inspection)
    assert (
        facts["images"]
        == "20 in 2 classes: 14 training, 6 test; those for validation are drawn from the training images"
    )
    assert facts["sizes"] == "40 x 40 to 48 x 40 pixels, median 42 x 40"
    assert facts["formats"] == "PNG 20"
    assert facts["groups"] == "9, the largest of 4 images; the folders train/, val/ and test/ divide 4"
    assert class_rows(inspection) == [("b", 7, pytest.approx(7 / 13)), ("a", 13, 1.0)]


def test_a_finding_with_many_pictures_says_how_many_are_left_out(
    inspection: Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 4)
    monkeypatch.setattr(module, "MOST_OF_SET", 3)
    rows = [(row, "") for row in range(20)]
    findings = [
        Finding("sets", 20, "", [rows[:8], rows[8:16], rows[16:]]),
        Finding("loose", 20, "", [[row] for row in rows]),
    ]
    page = inspection_page(inspection, findings, "proser inspect").decode()
    sections = page.split("<section")[1:]
    assert [section.count("<img") for section in sections] == [6, 4]
    for section, left in zip(sections, (14, 16), strict=True):
        assert f"<p>{left} more are not shown.</p>" in section


def test_all_files_without_a_picture_are_listed_as_the_terminal_says(inspection: Inspection) -> None:
    lines = [f"line {number} cannot be read" for number in range(1_000)]
    findings = [Finding("lines", len(lines), "", lines=lines)]
    page = inspection_page(inspection, findings, "proser inspect").decode()
    assert all(line in page for line in lines)
    assert "not shown" not in page


def test_images_of_one_size_have_one_size(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (48, 40)).save(tmp_path / name / "image.png")
    assert facts_of(inspect_folder(tmp_path, Grouping()))["sizes"] == "all 48 x 40 pixels"


def test_a_clean_folder_has_a_page_too(inspection: Inspection) -> None:
    assert findings_of(inspection) == []
    page = inspection_page(inspection, [], "proser inspect").decode()
    assert "Nothing was found" in page
    assert np.isclose(float(page.split("width: ")[-2].split("%")[0]), 53.8, atol=0.1)
