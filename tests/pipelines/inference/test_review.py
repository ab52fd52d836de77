"""Unknown images in groups, named on a page, as new classes in a folder."""

import csv
import errno
import os
import re
import shutil
import subprocess
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import screenshots
from browser import open_browser
from PIL import Image
from pipeline_runs import printed
from pyarrow import parquet

from pipelines.commands.review import ApplyRequest, ReviewRequest, apply, review
from pipelines.inference.review_files import write_review
from pipelines.inference.review_names import IMAGE_COLUMNS, IMAGES, NAMES, PAGE, add_images, read_named
from pipelines.inference.unknown_groups import Reviewed, grouped
from proser_core.data.readers import digits
from proser_core.data.readers.image_folders import image_paths
from proser_core.errors import ConfigError, DataError, StorageError
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.open_set_classifier import OpenSetClassifier

HOSTILE = "<b>a & b.png"
LOADED = """
import sys
from pipelines.cli import main
sys.argv = sys.argv[1:]
assert main() == 0
print("loaded:", *sorted({"torch", "mlflow", "scipy", "sklearn", "pyarrow"} & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits in one folder, without their classes, ten of them in files with hostile names."""
    folder, images = tmp_path_factory.mktemp("photos"), digits.read("test", 8)
    for number, pixels in enumerate(images.images[:200]):
        Image.fromarray(pixels).save(folder / (f"{number} {HOSTILE}" if number < 10 else f"{number:04}.png"))
    return folder


@pytest.fixture(scope="module")
def model(classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calls most images unknown."""
    assert classifier.validation_scores is not None
    folder, scores = tmp_path_factory.mktemp("model"), classifier.validation_scores
    replace(classifier, calibration=calibrate(scores.scores[scores.is_known], 0.1)).save(folder)
    return folder


@pytest.fixture(scope="module")
def reviewed(model: Path, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a review, and what was printed."""
    folder = tmp_path_factory.mktemp("reviews") / "review"
    code, text = printed(review, ReviewRequest(str(model), (str(photos),), folder, least=4))
    assert code == 0
    return folder, text


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def png(folder: Path) -> Path:
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / "black.png")
    return folder / "black.png"


def name_groups(folder: Path, names: dict[str, dict[str, str]]) -> None:
    rows = [{**row, **names.get(row["group"], {})} for row in table(folder / NAMES)]
    with (folder / NAMES).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def copied(reviewed: tuple[Path, str], to: Path) -> Path:
    return Path(shutil.copytree(reviewed[0], to / "review"))


class TestGrouping:
    def test_blobs_are_groups_and_what_lies_between_them_is_nearest_to_one(self) -> None:
        generator = np.random.default_rng(0)
        centres = np.eye(12)[:3]
        points = [each + 0.03 * generator.normal(size=12) for each in np.repeat(centres, [30, 20, 10], axis=0)]
        points += [np.eye(12)[5 + number] - centres.T @ [0.2, 0.2, 0.1] for number in range(3)]  # far from all
        groups = grouped(points, 5)
        assert [set(group.rows) for group in groups] == [set(range(30)), set(range(30, 50)), set(range(50, 60))]
        assert [set(group.further) for group in groups] == [set(), set(), {60, 61, 62}]
        directions = np.array(points[:30]) / np.linalg.norm(points[:30], axis=1, keepdims=True)
        nearness = directions @ directions.mean(axis=0)
        assert list(groups[0].rows) == sorted(range(30), key=lambda row: -nearness[row]), "the most typical first"

    @pytest.mark.parametrize("count", [0, 1, 4])
    def test_fewer_images_than_a_group_are_none(self, count: int) -> None:
        assert grouped([np.ones(3)] * count, 5) == []

    @pytest.mark.parametrize(("images", "noise", "strays"), [(12, 0.0, 0), (40, 1e-3, 0), (6, 0.03, 0), (60, 0.03, 10)])
    def test_images_of_one_kind_are_one_group_and_strays_are_its_last(
        self, images: int, noise: float, strays: int
    ) -> None:
        generator = np.random.default_rng(0)
        points = [*(np.eye(64)[0] + noise * generator.normal(size=(images, 64)))]
        points += [*(np.eye(64)[1 : 1 + strays])]
        (group,) = grouped(points, 5)
        assert set(group.rows[:images]) == set(range(images))
        assert set(group.rows[images:]) == set(range(images, images + strays))
        assert not len(group.further)


class TestReviewing:
    def test_every_unknown_image_is_in_it_once(self, reviewed: tuple[Path, str], model: Path, photos: Path) -> None:
        folder, text = reviewed
        rows = table(folder / IMAGES)
        classifier = OpenSetClassifier.load(model)
        paths = sorted(photos.iterdir())
        found = classifier.predict(np.stack([np.asarray(Image.open(path).convert("RGB")) for path in paths]))
        at_threshold = {str(path) for path, score in zip(paths, found.unknown_scores, strict=True) if abs(score) < 1e-4}
        unknown = {str(path) for path, label in zip(paths, found.labels, strict=True) if label == "unknown"}
        assert {row["path"] for row in rows} ^ unknown <= at_threshold  # batches of other sizes round otherwise
        assert len({row["path"] for row in rows}) == len(rows)
        assert f"{len(rows)} of 200 images unknown" in " ".join(text.split())
        scores = dict(zip(map(str, paths), found.unknown_scores, strict=True))
        assert all(float(row["score"]) == pytest.approx(scores[row["path"]], abs=1e-3) for row in rows)
        assert classifier.validation_scores is not None
        known = classifier.validation_scores.scores[classifier.validation_scores.is_known]
        for row in rows:
            as_high = np.sum(known >= scores[row["path"]] - classifier.calibration.bias - 1e-6)
            assert float(row["p_value"]) == pytest.approx((as_high + 1) / (len(known) + 1), abs=0.02)

    def test_its_groups_are_large_enough_and_have_a_row_to_name(self, reviewed: tuple[Path, str]) -> None:
        rows, names = table(reviewed[0] / IMAGES), table(reviewed[0] / NAMES)
        assert len(names) >= 2
        typical = [sum(row["group"] == each["group"] and row["typical"] == "yes" for row in rows) for each in names]
        assert typical == [int(each["images"]) for each in names]
        assert min(typical) >= 4
        assert typical == sorted(typical, reverse=True)

    def test_its_page_needs_no_network_and_escapes_names(self, reviewed: tuple[Path, str]) -> None:
        page = (reviewed[0] / PAGE).read_text()
        assert page.count("data:image/jpeg;base64") == len(table(reviewed[0] / IMAGES))
        assert not re.search(r"(src|href)=.?(https?:|//)", page)
        assert "<b>a" not in page
        assert any(row["path"].endswith(HOSTILE) for row in table(reviewed[0] / IMAGES))
        assert "&lt;b&gt;a &amp; b.png" in page

    def test_its_commands_can_be_pasted(self, model: Path, photos: Path, tmp_path: Path) -> None:
        folder, images = tmp_path / "my review", tmp_path / "my images"
        _, text = printed(review, ReviewRequest(str(model), (str(photos),), folder, least=4))
        assert f"proser review --apply '{folder}' --to MY_IMAGES" in text
        images.mkdir()
        name_groups(folder, {"1": {"name": "new"}})
        assert f"proser run folder --data-dir '{images}' (or" in printed(apply, ApplyRequest(folder, images))[1]

    def test_a_smaller_known_rate_shows_more(self, classifier: OpenSetClassifier, photos: Path, tmp_path: Path) -> None:
        classifier.save(tmp_path / "model")
        counts = []
        for rate in (None, 0.5, 0.2):
            out = tmp_path / f"review {rate}"
            printed(review, ReviewRequest(str(tmp_path / "model"), (str(photos),), out, rate))
            counts.append(len(table(out / IMAGES)))
        assert counts[0] < counts[1] < counts[2]

    def test_without_a_group_the_page_says_so(self, model: Path, photos: Path, tmp_path: Path) -> None:
        few = tuple(str(path) for path in sorted(photos.iterdir())[:3])
        _, text = printed(review, ReviewRequest(str(model), few, tmp_path / "review"))
        assert "no group: fewer than 5 images are unknown" in text
        assert "most like" not in text
        page = (tmp_path / "review" / PAGE).read_text()
        assert "No group" in page
        for remedy in ("--known-rate", "--least"):
            assert remedy in text
            assert remedy in page

    def test_an_image_that_cannot_be_decoded_is_named(self, model: Path, photos: Path, tmp_path: Path) -> None:
        shutil.copytree(photos, tmp_path / "photos")
        (tmp_path / "photos" / "broken.png").write_bytes(b"no image")
        code, text = printed(review, ReviewRequest(str(model), (str(tmp_path / "photos"),), tmp_path / "review"))
        assert code == 1
        assert "broken.png" in text

    def test_rows_of_parquet_files_are_refused(self, model: Path, tmp_path: Path) -> None:
        contents = [{"bytes": path.read_bytes()} for path in [png(tmp_path)]]
        parquet.write_table(pa.table({"image": contents}), tmp_path / "set.parquet")
        with pytest.raises(DataError, match="give folders of image files"):
            printed(review, ReviewRequest(str(model), (str(tmp_path / "set.parquet"),), tmp_path / "new" / "review"))
        assert not (tmp_path / "new").exists(), "what is refused leaves nothing behind"

    def test_a_folder_that_cannot_be_made_is_refused_before_the_model_is_read(
        self, photos: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("text")
        with pytest.raises(ConfigError, match=r"which cannot be made \(Not a directory\)"):
            printed(review, ReviewRequest("no model", (str(photos),), tmp_path / "file" / "review"))

    @pytest.mark.parametrize("written", [0, 1, 2])
    def test_on_a_full_disk_it_leaves_nothing_behind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
    ) -> None:
        room = iter([None] * written)

        def fill(descriptor: int) -> None:
            if next(room, "full"):
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("os.fsync", fill)
        with pytest.raises(StorageError, match="is full; free some space, and run the command again"):
            write_review(tmp_path / "new" / "review", "model", Reviewed(), [], [])
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_in_use_and_odd_values_are_refused(self, photos: Path) -> None:
        with pytest.raises(ConfigError, match="exists and is not empty; give a new folder"):
            ReviewRequest("model", ("photos",), photos)
        with pytest.raises(ConfigError, match="--least got 1"):
            ReviewRequest("model", ("photos",), Path("new"), least=1)
        with pytest.raises(ConfigError, match="--known-rate got 1;"):
            ReviewRequest("model", ("photos",), Path("new"), known_rate=1.0)


class TestApplying:
    def test_named_groups_become_classes_merged_by_name_and_a_second_time_changes_nothing(
        self, reviewed: tuple[Path, str], tmp_path: Path
    ) -> None:
        folder, images = copied(reviewed, tmp_path), tmp_path / "my_images"
        (images / "zero").mkdir(parents=True)
        rows = table(folder / IMAGES)
        one, two = ([row for row in rows if row["group"] == group] for group in ("1", "2"))
        left_out = one[0]
        also = next(row for row in rows if row["group"] not in ("1", "2") or row["typical"] == "no")
        name_groups(
            folder, {"1": {"name": "new", "without": left_out["image"], "also": also["image"]}, "2": {"name": "new"}}
        )
        wanted = {row["path"] for row in (*one, *two) if row["typical"] == "yes"} - {left_out["path"]} | {also["path"]}
        _, text = printed(apply, ApplyRequest(folder, images, dry_run=True))
        assert f"new: {len(wanted)} images would be copied" in text
        assert not (images / "new").exists()
        code, _ = printed(apply, ApplyRequest(folder, images))
        assert code == 0
        assert {path.name for path in (images / "new").iterdir()} == {Path(path).name for path in wanted}
        for path in wanted:
            assert (images / "new" / Path(path).name).read_bytes() == Path(path).read_bytes()
        _, again = printed(apply, ApplyRequest(folder, images))
        assert f"new: 0 images copied, {len(wanted)} there already" in again
        assert len(list((images / "new").iterdir())) == len(wanted)

    def test_another_image_of_the_same_name_stays(self, reviewed: tuple[Path, str], tmp_path: Path) -> None:
        folder, images = copied(reviewed, tmp_path), tmp_path / "my_images"
        name_groups(folder, {"1": {"name": "new"}})
        first = next(row for row in table(folder / IMAGES) if row["group"] == "1" and row["typical"] == "yes")
        target = images / "train" / "new" / Path(first["path"]).name
        target.parent.mkdir(parents=True)
        target.write_bytes(b"another image")
        printed(apply, ApplyRequest(folder, images))
        assert target.read_bytes() == b"another image"
        others = [path.read_bytes() for path in target.parent.iterdir()]
        assert Path(first["path"]).read_bytes() in others

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("unknown", "would mean two things"),
            ("../outside", "is no folder of a class"),
            (".hidden", "is no folder of a class"),
            ("train", "is no folder of a class"),
            ("Zero", "differ in upper and lower case alone"),
        ],
    )
    def test_a_name_that_is_no_class_is_refused_before_anything_is_copied(
        self, reviewed: tuple[Path, str], tmp_path: Path, name: str, reason: str
    ) -> None:
        folder, images = copied(reviewed, tmp_path), tmp_path / "my_images"
        (images / "zero").mkdir(parents=True)
        name_groups(folder, {"1": {"name": "good"}, "2": {"name": name}})
        with pytest.raises(DataError, match=reason):
            printed(apply, ApplyRequest(folder, images))
        assert [path.name for path in images.iterdir()] == ["zero"]

    def test_a_name_joins_the_folder_that_spells_its_accents_another_way(
        self, reviewed: tuple[Path, str], tmp_path: Path
    ) -> None:
        folder, images = copied(reviewed, tmp_path), tmp_path / "my_images"
        mac = unicodedata.normalize("NFD", "K\u00e4fer")
        (images / mac).mkdir(parents=True)
        name_groups(folder, {"1": {"name": "K\u00e4fer"}, "2": {"name": mac}})
        assert printed(apply, ApplyRequest(folder, images))[0] == 0
        assert [path.name for path in images.iterdir()] == [mac]
        assert list((images / mac).iterdir())
        (images / "K\u00e4fer").mkdir()
        with pytest.raises(DataError, match="in how their accents are stored"):
            printed(apply, ApplyRequest(folder, images))

    def test_a_table_written_by_hand_needs_no_more_than_groups_and_names(
        self, reviewed: tuple[Path, str], tmp_path: Path
    ) -> None:
        folder = copied(reviewed, tmp_path)
        (folder / NAMES).write_text("group,name\n1,new\n")
        (tmp_path / "mine").mkdir()
        printed(apply, ApplyRequest(folder, tmp_path / "mine"))
        assert [path.name for path in (tmp_path / "mine").iterdir()] == ["new"]

    def test_an_image_of_one_group_that_another_name_takes_in_is_refused(
        self, reviewed: tuple[Path, str], tmp_path: Path
    ) -> None:
        folder, images = copied(reviewed, tmp_path), tmp_path / "my_images"
        images.mkdir()
        image = next(row for row in table(folder / IMAGES) if row["group"] == "1" and row["typical"] == "yes")["image"]
        name_groups(folder, {"1": {"name": "one"}, "2": {"name": "two", "also": image}})
        with pytest.raises(DataError, match=f"gives image {image} two names, 'one' and 'two'; take its number"):
            printed(apply, ApplyRequest(folder, images))
        assert list(images.iterdir()) == []
        name_groups(folder, {"1": {"name": "one", "without": image}})
        assert printed(apply, ApplyRequest(folder, images))[0] == 0

    def test_a_dry_run_loads_nothing_heavy(self, reviewed: tuple[Path, str], tmp_path: Path) -> None:
        folder = copied(reviewed, tmp_path)
        name_groups(folder, {"1": {"name": "new"}})
        words = ["proser", "review", "--apply", str(folder), "--to", str(tmp_path), "--dry-run"]
        done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True)
        assert "would be copied" in done.stdout
        assert done.stdout.splitlines()[-1] == "loaded:"

    def test_what_does_not_belong_to_the_review_is_refused(self, reviewed: tuple[Path, str], tmp_path: Path) -> None:
        folder = copied(reviewed, tmp_path)
        with pytest.raises(ConfigError, match="names no group"):
            printed(apply, ApplyRequest(folder, tmp_path))
        with pytest.raises(ConfigError, match="which is no folder; give the folder of your images"):
            printed(apply, ApplyRequest(folder, tmp_path / "none"))
        name_groups(folder, {"1": {"name": "new", "without": "9999"}})
        with pytest.raises(DataError, match="has an image 9999 in group 1"):
            printed(apply, ApplyRequest(folder, tmp_path))
        name_groups(folder, {"1": {"group": "77", "name": "new"}})
        with pytest.raises(DataError, match="names a group 77"):
            printed(apply, ApplyRequest(folder, tmp_path))
        (folder / NAMES).write_text("group;name\n1;new\n")
        with pytest.raises(DataError, match="has no column 'group' in line 2"):
            printed(apply, ApplyRequest(folder, tmp_path))
        (folder / NAMES).unlink()
        with pytest.raises(DataError, match="was not found; give the folder that `proser review"):
            printed(apply, ApplyRequest(folder, tmp_path))

    def test_a_new_class_is_refused_where_other_parts_have_images_of_their_own(
        self, reviewed: tuple[Path, str], tmp_path: Path
    ) -> None:
        folder, images = copied(reviewed, tmp_path), tmp_path / "my_images"
        for part in ("train", "test"):
            (images / part / "zero").mkdir(parents=True)
        name_groups(folder, {"1": {"name": "new"}})
        with pytest.raises(DataError, match="test has no folder 'new', and every part needs every class"):
            printed(apply, ApplyRequest(folder, images))
        name_groups(folder, {"1": {"name": "zero"}})
        mine = [row for row in table(folder / IMAGES) if row["group"] == "1" and row["typical"] == "yes"]
        (images / "test" / "zero" / "deep").mkdir()
        shutil.copy(mine[0]["path"], images / "test" / "zero" / "deep" / "tested.png")
        _, text = printed(apply, ApplyRequest(folder, images))
        assert f"zero: {len(mine) - 1} images copied, 1 there already" in text, "none is trained on and tested"

    def test_an_image_that_is_gone_is_named_and_the_others_are_copied(
        self, reviewed: tuple[Path, str], photos: Path, tmp_path: Path
    ) -> None:
        folder, images = copied(reviewed, tmp_path), tmp_path / "my_images"
        images.mkdir()
        name_groups(folder, {"1": {"name": "new"}})
        text = (folder / IMAGES).read_text()
        mine = [row for row in table(folder / IMAGES) if row["group"] == "1" and row["typical"] == "yes"]
        (folder / IMAGES).write_text(text.replace(mine[0]["path"], str(photos / "gone.png")))
        code, printed_text = printed(apply, ApplyRequest(folder, images))
        assert code == 1
        assert "gone.png is gone" in printed_text
        assert len(list((images / "new").iterdir())) == len(mine) - 1

    @pytest.mark.parametrize("name", ["photo", ".photo.png"])
    def test_an_image_that_no_run_would_see_is_named_and_not_copied(self, tmp_path: Path, name: str) -> None:
        image = png(tmp_path)
        shutil.copy(image, tmp_path / name)
        (tmp_path / "mine" / "new").mkdir(parents=True)
        shutil.copy(image, tmp_path / "mine" / "new" / name)
        added = add_images({"new": [tmp_path / name, image]}, tmp_path / "mine")
        assert [failure.name for failure in added.failures] == [str(tmp_path / name)]
        assert "so that no run would see it; copy it to" in added.failures[0].reason
        assert image_paths(tmp_path / "mine" / "new") == [str(tmp_path / "mine" / "new" / "black.png")]

    def test_classes_that_differ_in_case_may_be_there_and_not_become_so(self, tmp_path: Path) -> None:
        image, mine = png(tmp_path), tmp_path / "mine"
        for name in ("a", "A", "b"):
            (mine / name).mkdir(parents=True)
        assert add_images({"new": [image], "a": [image], "A": [image]}, mine).copied == {"new": 1, "a": 1, "A": 1}
        for names in (("B",), ("b", "B"), ("c", "C")):
            with pytest.raises(DataError, match="differ in upper and lower case alone"):
                add_images({name: [image] for name in names}, mine)

    def test_files_of_a_class_that_cannot_be_read_are_named_and_stay(self, tmp_path: Path) -> None:
        image, mine = png(tmp_path), tmp_path / "mine"
        (mine / "cat").mkdir(parents=True)
        (mine / "cat" / image.name).symlink_to("gone.png")
        os.mkfifo(mine / "cat" / "pipe.png")
        added = add_images({"cat": [image, mine / "cat" / "pipe.png"]}, mine)
        assert [Path(each.name).name for each in added.failures] == ["black.png", "pipe.png", "pipe.png"]
        assert "cannot be read (No such file" in added.failures[0].reason
        assert added.copied == {"cat": 1}
        assert os.readlink(mine / "cat" / image.name) == "gone.png"

    @pytest.mark.parametrize(("name", "reason"), [("dog", "is no folder; rename it"), ("d" * 300, "name too long")])
    def test_a_class_whose_folder_cannot_be_is_refused_before_anything_is_copied(
        self, tmp_path: Path, name: str, reason: str
    ) -> None:
        image, mine = png(tmp_path), tmp_path / "mine"
        mine.mkdir()
        (mine / "dog").write_text("a file")
        with pytest.raises(DataError, match=f"(?i){reason}"):
            add_images({"cat": [image], name: [image]}, mine)
        assert [path.name for path in mine.iterdir()] == ["dog"]

    def test_images_with_the_longest_names_are_copied(self, tmp_path: Path) -> None:
        image, mine = png(tmp_path), tmp_path / "mine"
        image = image.rename(tmp_path / f"{'猫' * 83}.png")
        assert add_images({"cat": [image]}, mine).copied == {"cat": 1}
        image.write_bytes(image.read_bytes() + b"another image")
        assert add_images({"cat": [image]}, mine).copied == {"cat": 1}
        assert len(image_paths(mine / "cat")) == 2

    def test_a_table_that_is_no_csv_is_refused_by_name(self, tmp_path: Path) -> None:
        (tmp_path / IMAGES).write_text(f"{','.join(IMAGE_COLUMNS)}\n")
        (tmp_path / NAMES).write_text(f"group,name\n1,{'x' * 200_000}\n")
        with pytest.raises(DataError, match=r"names\.csv cannot be read \(field larger than field limit"):
            read_named(tmp_path)


def test_the_page_writes_names_that_can_be_applied(reviewed: tuple[Path, str], tmp_path: Path) -> None:
    program = screenshots.find_browser()
    if program is None:
        pytest.skip("Chromium is not installed")
    folder = copied(reviewed, tmp_path)
    with open_browser(program, tmp_path / "profile") as page:
        page.open((folder / PAGE).as_uri())
        page.value("document.querySelector('input').focus()")
        page.write('a "quoted", name')
        page.value("document.querySelector('section .sheet button').click()")
        page.value("document.querySelector('details button')?.click()")
        page.value("URL.createObjectURL = (blob) => { blob.text().then((text) => { saved = text; }); return '#'; }")
        page.value("document.getElementById('save').click()")
        (folder / NAMES).write_text(page.until("globalThis.saved"))
        assert page.value("document.getElementById('count').innerText").startswith("1 of ")
        assert not page.problems
    first = next(row for row in table(folder / NAMES) if row["group"] == "1")
    assert first["name"] == 'a "quoted", name'
    assert len(first["without"].split()) == 1
    images = tmp_path / "my_images"
    images.mkdir()
    code, _ = printed(apply, ApplyRequest(folder, images))
    assert code == 0
    count = int(first["images"]) - 1 + len(first["also"].split())
    assert len(list((images / 'a "quoted", name').iterdir())) == count
