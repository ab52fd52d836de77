"""A review: unknown images in groups, named on its page, as new classes in a folder."""

import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import screenshots
from browser import open_browser
from PIL import Image
from pipeline_runs import printed
from reviews import HOSTILE, name_groups, table

from pipelines.commands.review import ApplyRequest, ReviewRequest, apply, review
from pipelines.inference.review_names import IMAGES, NAMES, PAGE
from proser_core.errors import ConfigError, DataError
from proser_core.recognition.open_set_classifier import OpenSetClassifier

LOADED = """
import sys
from pipelines.cli import main
sys.argv = sys.argv[1:]
assert main() == 0
print("loaded:", *sorted({"torch", "mlflow", "scipy", "sklearn", "pyarrow"} & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def reviewed(model: Path, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a review, and what was printed."""
    folder = tmp_path_factory.mktemp("reviews") / "review"
    code, text = printed(review, ReviewRequest(str(model), (str(photos),), folder, least=4))
    assert code == 0
    return folder, text


def copied(reviewed: tuple[Path, str], to: Path) -> Path:
    return Path(shutil.copytree(reviewed[0], to / "review"))


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
        assert re.search("group +images +others near it +most like", reviewed[1])

    def test_its_page_needs_no_network_and_escapes_names(self, reviewed: tuple[Path, str]) -> None:
        page = (reviewed[0] / PAGE).read_text()
        assert page.count("data:image/jpeg;base64") == len(table(reviewed[0] / IMAGES))
        assert not re.search(r"(src|href)=.?(https?:|//)", page)
        assert "<b>a" not in page
        assert any(row["path"].endswith(HOSTILE) for row in table(reviewed[0] / IMAGES))
        assert "&lt;b&gt;a &amp; b.png" in page


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
        before = set(target.parent.iterdir())
        (second,) = (path for path in before if path.read_bytes() == Path(first["path"]).read_bytes())
        second.write_bytes(b"cropped")  # and so the image itself is not there any more
        printed(apply, ApplyRequest(folder, images))
        assert (target.read_bytes(), second.read_bytes()) == (b"another image", b"cropped")
        (third,) = set(target.parent.iterdir()) - before
        assert third.read_bytes() == Path(first["path"]).read_bytes()

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("unknown", "would mean two things"),
            ("../outside", "is not a folder of a class"),
            (".hidden", "is not a folder of a class"),
            ("train", "is not a folder of a class"),
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

    def test_a_group_with_two_rows_and_two_names_is_refused(self, reviewed: tuple[Path, str], tmp_path: Path) -> None:
        folder = copied(reviewed, tmp_path)
        (folder / NAMES).write_text("group,name\n1,one\n1,two\n")
        with pytest.raises(DataError, match="names group 1 twice, 'one' and 'two'; keep one row of a group"):
            printed(apply, ApplyRequest(folder, tmp_path))

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
        with pytest.raises(ConfigError, match="which is not a folder; give the folder of your images"):
            printed(apply, ApplyRequest(folder, tmp_path / "none"))
        name_groups(folder, {"1": {"name": "new", "without": "9999"}})
        with pytest.raises(DataError, match="has an image 9999 in group 1"):
            printed(apply, ApplyRequest(folder, tmp_path))
        name_groups(folder, {"1": {"group": "77", "name": "new"}})
        with pytest.raises(DataError, match="names a group 77"):
            printed(apply, ApplyRequest(folder, tmp_path))
        (folder / NAMES).write_text("group;name\n1;new\n")
        with pytest.raises(DataError, match="has no column 'group' in line 1"):
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
        with pytest.raises(DataError, match="test has no folder 'new' with an image, and every part needs every"):
            printed(apply, ApplyRequest(folder, images))
        (images / "test" / "new").mkdir()  # and nothing in it
        with pytest.raises(DataError, match="test has no folder 'new' with an image"):
            printed(apply, ApplyRequest(folder, images))
        Image.new("L", (8, 8)).save(images / "test" / "zero" / "black.png")
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


def test_the_page_writes_names_that_can_be_applied(reviewed: tuple[Path, str], tmp_path: Path) -> None:
    program = screenshots.find_browser()
    if program is None:
        pytest.skip("Chromium is not installed")
    folder = copied(reviewed, tmp_path)
    with open_browser(program, tmp_path / "profile") as page:
        page.open((folder / PAGE).as_uri(), width=640, height=450)  # of a window of 1280 pixels, enlarged to 200 %
        page.value("window.scrollTo(0, 400)")
        assert page.value("document.elementFromPoint(320, 120).closest('section') !== null"), "images can be seen"
        page.value("window.scrollTo(0, 0)")
        asks = "!window.dispatchEvent(new Event('beforeunload', {cancelable: true}))"
        assert not page.value(asks)
        page.value("document.querySelector('input').focus()")
        page.write('a "quoted", name')
        assert page.value(asks), "names would be lost"
        page.value("document.querySelector('section .sheet button').click()")
        page.value("document.querySelector('details button')?.click()")
        page.value("URL.createObjectURL = (blob) => { blob.text().then((text) => { saved = text; }); return '#'; }")
        page.value("document.getElementById('save').click()")
        (folder / NAMES).write_text(page.until("globalThis.saved"))
        assert page.value("document.getElementById('count').innerText").startswith("1 of ")
        assert not page.value(asks)
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
