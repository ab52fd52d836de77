"""What `proser review` takes and says, with a review for each, and what it refuses."""

import errno
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pipeline_runs import printed
from pyarrow import parquet
from reviews import name_groups, png, table

from pipelines.commands.review import ApplyRequest, ReviewRequest, apply, review
from pipelines.inference.review_files import write_review
from pipelines.inference.review_names import IMAGES, NAMES, PAGE
from pipelines.inference.unknown_groups import Reviewed
from proser_core.data.readers import digits
from proser_core.errors import ConfigError, DataError, StorageError
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.open_set_classifier import OpenSetClassifier


def test_its_commands_can_be_pasted(model: Path, photos: Path, tmp_path: Path) -> None:
    folder, images = tmp_path / "my review", tmp_path / "my images"
    _, text = printed(review, ReviewRequest(str(model), (str(photos),), folder, least=4))
    assert f"proser review --apply '{folder}' --to MY_IMAGES" in text
    images.mkdir()
    name_groups(folder, {"1": {"name": "new"}})
    assert f"proser run folder --data-dir '{images}' (or" in printed(apply, ApplyRequest(folder, images))[1]


def test_a_smaller_known_rate_shows_more(classifier: OpenSetClassifier, photos: Path, tmp_path: Path) -> None:
    classifier.save(tmp_path / "model")
    counts = []
    for rate in (None, 0.5, 0.2):
        out = tmp_path / f"review {rate}"
        printed(review, ReviewRequest(str(tmp_path / "model"), (str(photos),), out, rate))
        counts.append(len(table(out / IMAGES)))
    assert counts[0] < counts[1] < counts[2]
    assert classifier.validation_scores is not None
    at_rate = replace(classifier, calibration=calibrate(classifier.validation_scores.known_scores, 0.5))
    unknown = at_rate.predict(digits.read("test", 8).images[:200]).labels.count("unknown")
    assert counts[1] == pytest.approx(unknown, abs=1)  # batches of other sizes round otherwise


def test_unknown_images_that_are_too_many_to_group_are_left_out_and_counted(
    model: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text = printed(review, ReviewRequest(str(model), (str(photos),), tmp_path / "all"))
    monkeypatch.setattr("pipelines.inference.unknown_groups.MOST", 7)
    monkeypatch.setattr("proser_core.data.readers.image_files.PIECE", 50)
    _, fewer = printed(review, ReviewRequest(str(model), (str(photos),), tmp_path / "few"))
    assert len(table(tmp_path / "few" / IMAGES)) == 7
    count = len(table(tmp_path / "all" / IMAGES))
    assert all(f"{count} of 200 images unknown" in each for each in (text, fewer))


def test_copies_of_an_image_are_one_and_counted(model: Path, photos: Path, tmp_path: Path) -> None:
    printed(review, ReviewRequest(str(model), (str(photos),), tmp_path / "once"))
    shutil.copytree(photos, tmp_path / "copies")
    twice = (str(photos), str(tmp_path / "copies"), str(photos / "*.png"))
    _, text = printed(review, ReviewRequest(str(model), twice, tmp_path / "thrice"))
    once = table(tmp_path / "once" / IMAGES)
    assert table(tmp_path / "thrice" / IMAGES) == once
    count = len(once)
    assert f"{3 * count} of 600 images unknown, {2 * count} of them with the same pixels as another" in text
    page = (tmp_path / "thrice" / PAGE).read_text()
    assert f"{3 * count} of 600 images unknown" in page
    assert f"Copies of another image, which are not shown: {2 * count}." in page


def test_without_an_unknown_image_nothing_is_written(
    classifier: OpenSetClassifier, photos: Path, tmp_path: Path
) -> None:
    classifier.save(tmp_path / "model")
    predicted = classifier.predict(digits.read("test", 8).images[10:200]).unknown_scores
    known = photos / f"{10 + int(predicted.argmin()):04}.png"
    code, text = printed(review, ReviewRequest(str(tmp_path / "model"), (str(known),), tmp_path / "review"))
    assert code == 0
    assert "0 of 1 images unknown" in text
    assert "nothing to review, and nothing written" in text
    assert not (tmp_path / "review").exists()


def test_without_an_image_that_can_be_decoded_nothing_is_written(model: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="no image can be decoded, of 1; "):
        printed(review, ReviewRequest(str(model), (str(tmp_path / "broken.png"),), tmp_path / "review"))
    assert not (tmp_path / "review").exists()


def test_without_a_group_the_page_says_so(model: Path, photos: Path, tmp_path: Path) -> None:
    few = tuple(str(path) for path in sorted(photos.iterdir())[:3])
    _, text = printed(review, ReviewRequest(str(model), few, tmp_path / "review"))
    assert "no group: fewer than 5 different images are unknown" in text
    assert "most like" not in text
    page = (tmp_path / "review" / PAGE).read_text()
    assert "No group" in page
    assert page.count("<img ") == 3
    assert not re.search("<(button|input|script)", page), "there is nothing to click"
    for remedy in ("--known-rate", "--least"):
        assert remedy in text
        assert remedy in page


def test_an_image_that_cannot_be_decoded_is_named(model: Path, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    (tmp_path / "photos" / "broken.png").write_bytes(b"no image")
    code, text = printed(review, ReviewRequest(str(model), (str(tmp_path / "photos"),), tmp_path / "review"))
    assert code == 1
    assert "broken.png" in text


def test_rows_of_parquet_files_are_refused(model: Path, tmp_path: Path) -> None:
    contents = [{"bytes": path.read_bytes()} for path in [png(tmp_path)]]
    parquet.write_table(pa.table({"image": contents}), tmp_path / "set.parquet")
    with pytest.raises(DataError, match="give folders of image files"):
        printed(review, ReviewRequest(str(model), (str(tmp_path / "set.parquet"),), tmp_path / "new" / "review"))
    assert not (tmp_path / "new").exists(), "what is refused leaves nothing behind"


def test_a_folder_that_cannot_be_made_is_refused_before_the_model_is_read(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(ConfigError, match=r"which cannot be made \(Not a directory\)"):
        printed(review, ReviewRequest("no model", (str(photos),), tmp_path / "file" / "review"))


@pytest.mark.parametrize("written", [0, 1, 2])
def test_on_a_full_disk_it_leaves_nothing_behind_and_an_earlier_review_as_it_was(
    model: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    printed(review, ReviewRequest(str(model), (str(photos),), tmp_path / "earlier"))
    earlier = {path: path.read_bytes() for path in (tmp_path / "earlier").iterdir()}
    for folder in (tmp_path / "new" / "review", tmp_path / "earlier"):
        room = iter([None] * written)

        def fill(descriptor: int, room: Iterator[None] = room) -> None:
            if next(room, "full"):
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("os.fsync", fill)
        with pytest.raises(StorageError, match="is full; free some space, and run the command again"):
            write_review(folder, "model", Reviewed(), [], [])
    assert list(tmp_path.iterdir()) == [tmp_path / "earlier"]
    assert {path: path.read_bytes() for path in (tmp_path / "earlier").iterdir()} == earlier


def test_names_that_are_given_while_a_review_runs_are_not_replaced(model: Path, photos: Path, tmp_path: Path) -> None:
    request = ReviewRequest(str(model), (str(photos),), tmp_path / "review", least=4)
    printed(review, request)
    second = replace(request, least=5)
    name_groups(tmp_path / "review", {"1": {"name": "new"}})
    files = {path: path.read_bytes() for path in (tmp_path / "review").iterdir()}
    with pytest.raises(ConfigError, match=r"would replace the names in .*names\.csv; give another folder, or remove"):
        printed(review, second)
    assert {path: path.read_bytes() for path in (tmp_path / "review").iterdir()} == files


def test_an_earlier_review_is_replaced_until_it_has_names(model: Path, photos: Path, tmp_path: Path) -> None:
    request = ReviewRequest(str(model), (str(photos),), tmp_path / "review", least=4)
    printed(review, request)
    pages = [(tmp_path / "review" / PAGE).read_text()]
    earlier = (tmp_path / "review" / NAMES).read_text()
    few = replace(request, paths=tuple(str(path) for path in sorted(photos.iterdir())[:150]))
    printed(review, few)
    pages.append((tmp_path / "review" / PAGE).read_text())
    assert "of 200 images unknown" in pages[0]
    assert "of 150 images unknown" in pages[1]
    (tmp_path / "review" / NAMES).write_text(earlier)  # saved by a page that was open
    name_groups(tmp_path / "review", {"1": {"name": "new"}})
    with pytest.raises(DataError, match=r"it is of an earlier review; name the groups in index\.html as it is now"):
        printed(apply, ApplyRequest(tmp_path / "review", tmp_path))
    with pytest.raises(ConfigError, match=r"would replace the names in .*names\.csv; give another folder, or remove"):
        replace(request, least=5)
    assert "new" in (tmp_path / "review" / NAMES).read_text()


def test_a_folder_in_use_and_odd_values_are_refused(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / PAGE).write_text("my own page")
    for folder in (photos, tmp_path / "site", tmp_path / "site" / PAGE):
        with pytest.raises(ConfigError, match="exists and is no earlier review; give a new folder"):
            ReviewRequest("model", ("photos",), folder)
    with pytest.raises(ConfigError, match="--least got 1"):
        ReviewRequest("model", ("photos",), Path("new"), least=1)
    with pytest.raises(ConfigError, match="--known-rate got 1;"):
        ReviewRequest("model", ("photos",), Path("new"), known_rate=1.0)
