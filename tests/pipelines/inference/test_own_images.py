"""A model on images of a user's own: calibrated anew, evaluated, and watched for drift."""

import io
import json
import os
import shutil
import unicodedata
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

from pipelines.commands.calibrate import CalibrateRequest, calibrate, images_needed
from pipelines.commands.drift import DriftRequest, drift
from pipelines.commands.evaluate import EvaluateRequest, evaluate
from pipelines.inference.drift import measure_drift
from pipelines.inference.labelled_folder import folder_logits
from pipelines.tracking.models import load
from pipelines.tracking.server import experiment_id
from pipelines.tracking.versions import CALIBRATED_FROM
from pipelines.workflow.promotion import promote
from pipelines.workflow.requests import PromoteRequest
from proser_core.data.readers import digits
from proser_core.errors import ConfigError, DataError, TrackingError
from proser_core.recognition.calibration import calibrate as fit_bias
from proser_core.recognition.model_card import model_card
from proser_core.recognition.open_set_classifier import OpenSetClassifier

pytestmark = pytest.mark.usefixtures("empty_programs")


@pytest.fixture(scope="module")
def registry(
    classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch
) -> Registry:
    folder = tmp_path_factory.mktemp("registry")
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
    patch.setattr("pipelines.tracking.decisions.LOCKS", folder / "locks")
    registry = Registry(folder, "own")
    registry.add(classifier)
    return registry


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All digits of the test part, in folders by class."""
    folder, images = tmp_path_factory.mktemp("labelled"), digits.read("test", 8)
    for number, (pixels, label) in enumerate(zip(images.images, images.labels, strict=True)):
        (folder / images.class_names[label]).mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / images.class_names[label] / f"{number:04}.png")
    return folder


@pytest.fixture(scope="module")
def known(labelled: Path, classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of the known classes alone."""
    folder = tmp_path_factory.mktemp("known")
    for name in classifier.class_names:
        (folder / name).symlink_to(labelled / name)
    return folder


class TestCalibrating:
    def test_it_registers_a_version_that_keeps_the_new_share_and_changes_nothing_else(
        self, registry: Registry, classifier: OpenSetClassifier, known: Path
    ) -> None:
        code, text = printed(calibrate, CalibrateRequest("models:/own/1", known, 0.8))
        assert code == 0
        made = load("models:/own@candidate")
        assert made.version.tags[CALIBRATED_FROM] == "1"
        scores = classifier.score_function(folder_logits(classifier, known, "cpu").logits)
        kept = int(np.ceil(0.8 * len(scores) - 1e-9))
        assert made.classifier.calibration.bias == -float(np.sort(scores)[kept - 1])
        assert made.classifier.calibration.num_images == len(scores)
        for name, weights in classifier.net.state_dict().items():
            np.testing.assert_array_equal(made.classifier.net.state_dict()[name].numpy(), weights.numpy())
        assert f"{100 * kept / len(scores):.1f} % of {len(scores)} images stay known (target 80 %)" in text
        assert f"models:/own/{made.version.number} (candidate)" in text
        figures = {name: float(made.version.tags[name]) for name in ("dev/auroc", "val/known_rate")}
        assert figures["dev/auroc"] == pytest.approx(classifier.results["dev/auroc"], abs=1e-3)
        assert figures["val/known_rate"] < classifier.results["val/known_rate"] - 0.05

    def test_its_card_says_what_was_measured_with_what(self, registry: Registry, known: Path) -> None:
        printed(calibrate, CalibrateRequest("models:/own/1", known, 0.85))
        made = load("models:/own@candidate")
        card = model_card(made.classifier)
        assert "(target 85 %)" in card
        before = load("models:/own/1").classifier
        assert f"Measured with bias {before.calibration.bias:.4f}" in card
        assert "Measured with bias" not in model_card(before)
        assert card.count("## Results") == 1
        assert "| MaxLogit |" in card

    def test_it_can_be_compared_with_the_model_that_it_was_made_of(self, registry: Registry, known: Path) -> None:
        printed(calibrate, CalibrateRequest("models:/own/1", known, 0.9))
        code, text = printed(promote, PromoteRequest("own", tolerance=0.3, force=True))
        assert code == 0
        assert "AUROC" in text
        assert "+0.0 to +0.0" in text, "the order of the scores is the same"
        assert "test/known_rate" not in text, "it was measured with another bias"

    @pytest.mark.parametrize(("rate", "needed"), [(0.95, 20), (0.9, 10), (0.93, 15), (0.97, 34), (0.7, 4)])
    def test_there_are_as_many_images_as_make_one_unknown(self, rate: float, needed: int) -> None:
        assert images_needed(rate) == needed
        assert fit_bias(np.arange(float(needed)), rate).known_rate < 1
        assert fit_bias(np.arange(needed - 1.0), rate).known_rate == 1

    @pytest.mark.parametrize(("rate", "reason"), [(1.0, "--target-rate got 1; need"), (0.9999, "need at least 10000")])
    def test_a_rate_that_cannot_be_told_is_refused(
        self, registry: Registry, known: Path, rate: float, reason: str
    ) -> None:
        with pytest.raises(ConfigError, match=reason):
            printed(calibrate, CalibrateRequest("models:/own/1", known, rate))

    def test_it_takes_the_rate_at_which_errors_cost_least(
        self, registry: Registry, classifier: OpenSetClassifier, known: Path
    ) -> None:
        printed(calibrate, CalibrateRequest("models:/own/1", known, unknown_share=0.5, cost=4))
        made = load("models:/own@candidate").classifier
        assert classifier.known_rates is not None
        assert made.calibration.target_rate == classifier.known_rates.cheapest(0.5, 4)
        printed(calibrate, CalibrateRequest("models:/own/1", known, unknown_share=0.3))
        assert load("models:/own@candidate").classifier.calibration.target_rate > made.calibration.target_rate

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ({"unknown_share": 1.5}, "--unknown-share got 1.5; need a fraction"),
            ({"unknown_share": 0.1, "cost": -1.0}, "--cost got -1; need a positive number"),
            ({"unknown_share": 0.1, "target_rate": 0.9}, "are both given"),
            ({"cost": 3.0}, "--unknown-share, which is missing"),
        ],
    )
    def test_a_rule_that_decides_nothing_is_refused(self, known: Path, given: dict[str, float], reason: str) -> None:
        with pytest.raises(ConfigError, match=reason):
            CalibrateRequest("models:/own/1", known, **given)

    def test_a_run_whose_version_cannot_be_registered_is_marked_as_failed(
        self, registry: Registry, known: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*arguments: object) -> None:
            raise OSError("no space")

        monkeypatch.setattr("pipelines.tracking.registry._log_model", refused)
        with pytest.raises(OSError, match="no space"):
            printed(calibrate, CalibrateRequest("models:/own/1", known, 0.7))
        client = registry.client
        last = client.search_runs([experiment_id(client)], order_by=["start_time DESC"], max_results=1)[0]
        assert (last.info.run_name, last.info.status) == (f"calibrate: own version 1 on {known.name}", "FAILED")

    def test_images_next_to_the_folders_of_classes_are_skipped(
        self, registry: Registry, classifier: OpenSetClassifier, known: Path, tmp_path: Path
    ) -> None:
        """Without such folders, all images count."""
        images = known / classifier.class_names[0]
        code, text = printed(calibrate, CalibrateRequest("models:/own/1", images, 0.8))
        assert (code, "skipped" in text) == (0, False)
        (tmp_path / images.name).symlink_to(images)
        Image.new("RGB", (8, 8)).save(tmp_path / "stray.png")
        code, text = printed(calibrate, CalibrateRequest("models:/own/1", tmp_path, 0.8))
        assert (code, "skipped: 1 image in no folder of a class" in text) == (1, True)
        assert load("models:/own@candidate").classifier.calibration.num_images == len(list(images.iterdir()))

    def test_images_of_other_classes_are_refused(self, registry: Registry, labelled: Path) -> None:
        with pytest.raises(DataError, match="give images of known classes only"):
            printed(calibrate, CalibrateRequest("models:/own/1", labelled))

    def test_a_model_in_a_folder_is_refused(self, classifier: OpenSetClassifier, known: Path, tmp_path: Path) -> None:
        classifier.save(tmp_path)
        with pytest.raises(TrackingError, match="is a folder; a new version needs a registered model"):
            printed(calibrate, CalibrateRequest(str(tmp_path), known))


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


class TestEvaluating:
    def test_its_metrics_are_those_of_scikit_learn(
        self, registry: Registry, classifier: OpenSetClassifier, labelled: Path, tmp_path: Path
    ) -> None:
        code, text = printed(evaluate, EvaluateRequest("models:/own/1", labelled, tmp_path / "out.json"))
        assert code == 0
        got = json.loads((tmp_path / "out.json").read_text())["metrics"]
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
        strangers = sorted(set(images.class_names) - set(classifier.class_names))
        assert f"counted as unknown: {', '.join(strangers)}" in text

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
        with pytest.raises(DataError, match="is no folder"):
            printed(evaluate, EvaluateRequest("models:/own/1", tmp_path / "gone"))


class TestDrift:
    def test_images_of_the_same_kind_do_not_drift_and_others_do(
        self, registry: Registry, known: Path, labelled: Path, classifier: OpenSetClassifier, tmp_path: Path
    ) -> None:
        same = [str(known / name) for name in classifier.class_names]
        code, text = printed(drift, DriftRequest("models:/own/1", same))
        assert code == 0
        assert "no significant drift" in text
        strangers = [str(path) for path in labelled.iterdir() if path.name not in classifier.class_names]
        code, text = printed(drift, DriftRequest("models:/own/1", strangers, tmp_path / "drift.png"))
        assert code == 0
        assert "drift: the scores differ" in text
        with Image.open(tmp_path / "drift.png") as picture:
            assert picture.size[0] > 500

    def test_its_numbers_are_those_of_the_scores(self) -> None:
        generator = np.random.default_rng(0)
        validation = generator.normal(size=400)
        bias = -float(np.quantile(validation, 0.95))
        same = measure_drift(generator.normal(size=500), validation, bias)
        assert not same.drifted
        assert same.interval[0] < 0.05 < same.interval[1]
        moved = measure_drift(generator.normal(1, size=500), validation, bias)
        assert moved.drifted
        assert moved.unknown_share > 3 * moved.expected_share

    def test_false_alarms_are_as_rare_as_the_level_says(self) -> None:
        generator = np.random.default_rng(1)
        alarms = [measure_drift(generator.normal(size=80), generator.normal(size=120), 0.0).drifted for _ in range(400)]
        assert sum(alarms) <= 12  # 4 expected; 13 or more would come once in 4,000 times

    def test_a_model_without_its_validation_images_is_refused(
        self, classifier: OpenSetClassifier, known: Path, tmp_path: Path
    ) -> None:
        replace(classifier, validation_scores=None).save(tmp_path / "model")
        with pytest.raises(DataError, match="has no record of its validation images"):
            printed(drift, DriftRequest(str(tmp_path / "model"), [str(known)]))


def test_a_folder_whose_parquet_files_have_no_row_is_refused(
    registry: Registry, classifier: OpenSetClassifier, tmp_path: Path
) -> None:
    folder = tmp_path / classifier.class_names[0]
    folder.mkdir()
    parquet.write_table(pa.table({"image": pa.array([], pa.binary())}), folder / "none.parquet")
    with pytest.raises(DataError, match=r"no image below .* can be decoded, of 0; .* have no row"):
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
