"""The contact sheet of a prediction: what each image was called, and which are unknown."""

import io
import weakref
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.figure import Figure
from PIL import Image
from pipeline_runs import printed
from rich.console import Console

from pipelines.commands.predict import PredictRequest, predict
from pipelines.inference import contact_sheet
from pipelines.inference.predictions import predict_part
from proser_core.data.readers.image_files import Decoded
from proser_core.errors import DataError
from proser_core.recognition.open_set_classifier import OpenSetClassifier


def test_a_contact_sheet_is_drawn(model: str, images: Path, tmp_path: Path) -> None:
    code, _ = printed(predict, PredictRequest(model, (f"{images}/0*.png",), contact_sheet=tmp_path / "sheet.png"))
    assert code == 0
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert min(sheet.size) > 500


def test_a_contact_sheet_says_what_each_image_was_called_and_frames_the_unknown_ones(
    classifier: OpenSetClassifier, pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(contact_sheet, "write_picture", lambda figure, path: figures.append(figure))
    names = [f"folder/{number}.png" for number in range(len(pixels))]
    part = predict_part(classifier, Decoded(names, pixels, []), "cpu", contact_sheet.NUM_IMAGES)
    sheet = contact_sheet.ContactSheet(tmp_path / "sheet.png", classifier.class_names)
    sheet.add(part)
    assert sheet.save()
    found = part.predictions
    nearest = [classifier.class_names[index] for index in found.known_predictions]
    called = dict(zip(names, zip(found.labels, found.unknown_scores, nearest, strict=True), strict=True))
    assert f"{len(names)} images, {found.labels.count('unknown')} unknown" in figures[0].get_suptitle()
    drawn = [axes for axes in figures[0].axes if axes.get_xlabel()]
    assert len(drawn) == min(len(names), contact_sheet.NUM_IMAGES)
    for axes in drawn:
        said, *like, name = axes.get_xlabel().split("\n")
        label, score, nearest_class = called[f"folder/{name}"]
        assert said == f"{label}, {score:.2f}"
        assert like == ([f"most like {nearest_class}"] if label == "unknown" else [])
        assert axes.get_frame_on() == (label == "unknown")
    assert {axes.get_frame_on() for axes in drawn} == {True, False}


def test_a_contact_sheet_keeps_no_more_images_than_it_shows(
    classifier: OpenSetClassifier, pixels: np.ndarray, tmp_path: Path
) -> None:
    sheet = contact_sheet.ContactSheet(tmp_path / "sheet.png", classifier.class_names)
    names = [f"{number}.png" for number in range(len(pixels))]
    part = predict_part(classifier, Decoded(names, pixels, []), "cpu", contact_sheet.NUM_IMAGES)
    of_part = weakref.ref(part.pixels)
    sheet.add(part)
    del part
    assert of_part() is None


@pytest.mark.parametrize(("count", "words"), [(1, ">1 image, "), (40, ">40 images, "), (41, ">40 of 41 images, ")])
def test_the_title_counts_the_images(
    classifier: OpenSetClassifier,
    pixels: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    count: int,
    words: str,
) -> None:
    sheet = contact_sheet.ContactSheet(tmp_path / "sheet.svg", classifier.class_names)
    part = Decoded([f"{number}.png" for number in range(count)], pixels[:count], [])
    sheet.add(predict_part(classifier, part, "cpu", contact_sheet.NUM_IMAGES))
    monkeypatch.setitem(rcParams, "svg.fonttype", "none")
    assert sheet.save()
    assert words in (tmp_path / "sheet.svg").read_text()


def test_images_of_one_name_are_told_apart_by_their_folders() -> None:
    paths = ["/new/cat/1.png", "/new/dog/1.png", "/old/dog/1.png", "2.png", "/a/2.png", "/new/dog/3.png", "x", "x"]
    assert contact_sheet.unique_endings(paths) == [
        "cat/1.png", "new/dog/1.png", "old/dog/1.png", "2.png", "a/2.png", "3.png", "x", "x"
    ]  # fmt: skip


@pytest.mark.filterwarnings("error")
def test_a_contact_sheet_shows_letters_that_its_font_lacks_by_their_number(
    classifier: OpenSetClassifier, pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ["日本.png", "日光.png", "a\tb\n.png", "été Ж.png"]
    sheet = contact_sheet.ContactSheet(tmp_path / "sheet.svg", classifier.class_names)
    sheet.add(predict_part(classifier, Decoded(names, pixels[:4], []), "cpu", contact_sheet.NUM_IMAGES))
    monkeypatch.setitem(rcParams, "svg.fonttype", "none")
    assert sheet.save()
    text = (tmp_path / "sheet.svg").read_text()
    for name in (r"\u65e5\u672c.png", r"\u65e5\u5149.png", r"a\u0009b\x0a.png", "été Ж.png"):
        assert f">{name}<" in text


def test_a_contact_sheet_of_no_image_is_not_said_to_be_written(model: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no image")
    request, terminal = PredictRequest(model, (str(tmp_path),), contact_sheet=tmp_path / "sheet.png"), io.StringIO()
    with pytest.raises(DataError, match="no image can be decoded, of 1;"):
        predict(request, Console(file=terminal))
    assert not (tmp_path / "sheet.png").exists()
    assert "written:" not in terminal.getvalue()
    assert "skipped:" in terminal.getvalue()
