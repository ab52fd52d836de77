"""A model evaluated on images of a user's own: its metrics, and folders that are not as they should be."""

import io
import json
import os
import shutil
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pipeline_runs import printed
from pyarrow import parquet
from registered_models import Registry
from rich.console import Console
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from pipelines.commands.calibrate import CalibrateRequest, calibrate
from pipelines.commands.drift import DriftRequest, drift
from pipelines.commands.evaluate import EvaluateRequest, evaluate
from pipelines.commands.predict import PredictRequest, predict
from pipelines.commands.review import ReviewRequest, review
from pipelines.tracking.models import load
from proser_core.data.readers import digits
from proser_core.errors import ConfigError, DataError
from proser_core.recognition.open_set_classifier import OpenSetClassifier

pytestmark = pytest.mark.usefixtures("empty_programs")


@pytest.mark.parametrize(("of_model", "on_disk"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_class_is_known_in_either_spelling_of_its_accents(
    registry: Registry, classifier: OpenSetClassifier, known: Path, tmp_path: Path, of_model: str, on_disk: str
) -> None:
    others = classifier.class_names[1:]
    names = (unicodedata.normalize(of_model, "K\u00e4fer"), *others)
    version = registry.add(replace(classifier, class_names=names)).version
    for name, folder in zip(classifier.class_names, (unicodedata.normalize(on_disk, names[0]), *others), strict=True):
        (tmp_path / folder).symlink_to(known / name)
    code, text = printed(evaluate, EvaluateRequest(f"models:/own/{version}", tmp_path))
    assert (code, "0 of others" in text, "no folder of an unknown class" in text) == (0, True, True)
    assert printed(calibrate, CalibrateRequest(f"models:/own/{version}", tmp_path))[0] == 0
    assert load("models:/own@candidate").classifier.class_names == names


def test_every_command_names_images_of_formats_that_are_not_read_and_other_files(
    registry: Registry, known: Path, tmp_path: Path
) -> None:
    images = tmp_path / "images"
    shutil.copytree(known, images)
    folder = min(images.iterdir())
    (folder / "phone.HEIC").write_bytes(b"heic")
    (folder / "notes.txt").write_text("what these are")
    model, paths = "models:/own/1", (str(images),)
    for command, request in (
        (predict, PredictRequest(model, paths)),
        (evaluate, EvaluateRequest(model, images)),
        (calibrate, CalibrateRequest(model, images)),
        (review, ReviewRequest(model, paths, tmp_path / "review")),
        (drift, DriftRequest(model, paths)),
    ):
        code, text = printed(command, request)
        assert code == 1, text
        assert f"ignored: 1 non-image file, the first is {folder / 'notes.txt'}" in text
        assert f"skipped: {folder / 'phone.HEIC'} is of a format that is not read; convert it" in text


class TestEvaluating:
    def test_its_metrics_are_those_of_scikit_learn(
        self, registry: Registry, classifier: OpenSetClassifier, labelled: Path, tmp_path: Path
    ) -> None:
        code, text = printed(evaluate, EvaluateRequest("models:/own/1", labelled, tmp_path / "out.json"))
        assert code == 0
        written = json.loads((tmp_path / "out.json").read_text())
        got = written["metrics"]
        images = digits.read("test", 8)
        names = [images.class_names[label] for label in images.labels]
        predictions = classifier.predict(images.images)
        known = np.array([name in classifier.class_names for name in names])
        truth = [name if name in classifier.class_names else "unknown" for name in names]
        right = np.array([label == name for label, name in zip(predictions.labels, truth, strict=True)])
        assert got["macro_f1"] == pytest.approx(f1_score(truth, predictions.labels, average="macro"))
        assert got["auroc"] == pytest.approx(roc_auc_score(~known, predictions.unknown_scores), abs=1e-6)
        assert got["aupr"] == pytest.approx(average_precision_score(~known, predictions.unknown_scores), abs=1e-6)
        assert got["known_accuracy"] == pytest.approx(right[known].mean())
        assert got["unknown_found"] == pytest.approx(right[~known].mean())
        for folder, each in written["classes"].items():
            mine = np.array(names) == folder
            stays_known = np.array(predictions.labels)[mine] != "unknown"
            assert (each["stays_known"], each["right"]) == pytest.approx((stays_known.mean(), right[mine].mean()))
        strangers = sorted(set(images.class_names) - set(classifier.class_names))
        assert f"counted as unknown: {', '.join(strangers)}" in text

    def test_it_says_where_fewer_known_images_stay_known_than_promised(
        self, registry: Registry, classifier: OpenSetClassifier, known: Path
    ) -> None:
        for bias, says in ((-1e9, False), (1e9, True)):
            calibration = replace(classifier.calibration, bias=bias)
            version = registry.add(replace(classifier, calibration=calibration)).version
            _, text = printed(evaluate, EvaluateRequest(f"models:/own/{version}", known))
            assert f"target {100 * calibration.target_rate:.4g}; 95 % interval" in text
            assert (f"calibrated for: `proser calibrate models:/own/{version} --data FOLDER`" in text) == says

    def test_classes_of_the_model_that_the_folder_lacks_cost_no_macro_f1(
        self, registry: Registry, classifier: OpenSetClassifier, labelled: Path, tmp_path: Path
    ) -> None:
        known = classifier.class_names[0]
        stranger = min({path.name for path in labelled.iterdir()} - {*classifier.class_names})
        for name in (known, stranger):
            (tmp_path / name).symlink_to(labelled / name)
        printed(evaluate, EvaluateRequest("models:/own/1", tmp_path, tmp_path / "out.json"))
        got = json.loads((tmp_path / "out.json").read_text())["metrics"]
        images = digits.read("test", 8)
        names = np.array([images.class_names[label] for label in images.labels])
        mine = np.isin(names, [known, stranger])
        labels = classifier.predict(images.images[mine]).labels
        truth = np.where(names[mine] == known, known, "unknown")
        assert len({*truth, *labels}) < len(classifier.class_names) + 1
        assert got["macro_f1"] == pytest.approx(f1_score(truth, labels, average="macro"))

    def test_images_in_no_folder_of_a_class_are_skipped(
        self, registry: Registry, known: Path, labelled: Path, tmp_path: Path
    ) -> None:
        shutil.copytree(known, tmp_path / "data")
        Image.new("RGB", (8, 8)).save(tmp_path / "data" / "stray.png")
        code, text = printed(evaluate, EvaluateRequest("models:/own/1", tmp_path / "data"))
        assert code == 1
        assert "skipped: 1 image in no folder of a class" in text
        assert "0 of others" in text

    def test_without_unknown_images_it_says_what_can_be_said(self, registry: Registry, known: Path) -> None:
        code, text = printed(evaluate, EvaluateRequest("models:/own/1", known))
        assert code == 0
        assert "no folder of an unknown class" in text
        assert [line.split()[-1] for line in text.splitlines() if line.strip().startswith("AUROC")] == ["-"]

    @pytest.mark.parametrize("command", [evaluate, calibrate])
    def test_a_bar_counts_the_images(self, registry: Registry, known: Path, command: Callable[..., int]) -> None:
        total = sum(1 for _ in known.glob("*/*.png"))
        asked = EvaluateRequest if command is evaluate else CalibrateRequest
        terminal = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
        assert command(asked("models:/own/1", known), terminal) == 0
        assert f"{command.__name__} " in terminal.file.getvalue()
        assert f"{total}/{total} images" in terminal.file.getvalue()

    def test_a_folder_whose_name_is_not_utf8_is_told(
        self, registry: Registry, classifier: OpenSetClassifier, known: Path, tmp_path: Path
    ) -> None:
        for name in (os.fsdecode(b"caf\xe9"), classifier.class_names[0]):
            (tmp_path / name).symlink_to(known / classifier.class_names[0])
        terminal = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="strict", write_through=True)
        assert evaluate(EvaluateRequest("models:/own/1", tmp_path, tmp_path / "out.json"), Console(file=terminal)) == 0
        terminal.seek(0)
        assert "caf\\xe9 (unknown)" in terminal.read()

    @pytest.mark.parametrize("scores", [False, True])
    def test_a_folder_without_images_of_a_known_class_is_refused(
        self, registry: Registry, classifier: OpenSetClassifier, tmp_path: Path, scores: bool
    ) -> None:
        request = EvaluateRequest("models:/own/1", tmp_path, scores=scores)
        known, other = tmp_path / classifier.class_names[0], tmp_path / "other"
        known.mkdir()
        with pytest.raises(DataError, match="no folder of a class with images; need one of a class that own version 1"):
            printed(evaluate, request)
        other.mkdir()
        Image.new("RGB", (8, 8)).save(other / "image.png")
        with pytest.raises(DataError, match="has images in the folders other; need one of a class"):
            printed(evaluate, request)
        (known / "broken.png").write_bytes(b"no image")
        with pytest.raises(DataError, match="has images in the folders other; need one of a class"):
            printed(evaluate, request)

    def test_a_folder_that_does_not_exist_is_refused(self, registry: Registry, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="is not a folder"):
            printed(evaluate, EvaluateRequest("models:/own/1", tmp_path / "gone"))


def test_a_folder_whose_parquet_files_have_no_row_is_refused(
    registry: Registry, classifier: OpenSetClassifier, tmp_path: Path
) -> None:
    folder = tmp_path / classifier.class_names[0]
    folder.mkdir()
    parquet.write_table(pa.table({"image": pa.array([], pa.binary())}), folder / "none.parquet")
    with pytest.raises(DataError, match=f"the Parquet files of {tmp_path} have no row; give files with images"):
        printed(evaluate, EvaluateRequest("models:/own/1", tmp_path))


@pytest.mark.parametrize("name", ["folder.json", "/proc/out.json", "out.csv", "folder.png", "/proc/drift.png"])
def test_an_output_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path, name: str) -> None:
    for folder in ("folder.json", "folder.png"):
        (tmp_path / folder).mkdir()
    before, path = sorted(tmp_path.iterdir()), tmp_path / name
    call = (drift, DriftRequest("no model", [str(tmp_path)], path))
    if not name.endswith(".png"):
        call = (evaluate, EvaluateRequest("no model", tmp_path, path))
    with pytest.raises(ConfigError, match=f"--(output|figure) got {path}"):
        printed(*call)
    assert sorted(tmp_path.iterdir()) == before
