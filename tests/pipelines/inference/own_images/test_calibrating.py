"""A model calibrated anew on images of a user's own: the version that it becomes, and what is refused."""

import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import mlflow
import numpy as np
import pyarrow as pa
import pytest
from mlflow import MlflowClient
from PIL import Image
from pipeline_runs import printed
from pyarrow import parquet
from registered_models import Registry

from pipelines.commands.calibrate import CalibrateRequest, calibrate
from pipelines.commands.evaluate import EvaluateRequest, evaluate
from pipelines.commands.models import print_models
from pipelines.inference.labelled_folder import folder_logits
from pipelines.tracking.models import load
from pipelines.tracking.server import experiment_id
from pipelines.tracking.versions import CALIBRATED_FROM, CHOSEN_AMONG
from pipelines.workflow.promotion import promote
from pipelines.workflow.requests import PromoteRequest
from pipelines.workflow.rollback import rollback
from proser_core.data.stored import digest_of, numbered
from proser_core.errors import DataError, TrackingError
from proser_core.recognition.model_card import model_card
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.titles import METRICS

pytestmark = pytest.mark.usefixtures("empty_programs")


def test_it_registers_a_version_that_keeps_the_new_share_and_changes_nothing_else(
    registry: Registry, classifier: OpenSetClassifier, known: Path
) -> None:
    registry.client.set_model_version_tag("own", "1", CHOSEN_AMONG, "25")
    code, text = printed(calibrate, CalibrateRequest("models:/own/1", known, 0.8))
    assert code == 0
    made = load("models:/own@candidate")
    assert [made.version.tags[name] for name in (CALIBRATED_FROM, CHOSEN_AMONG)] == ["1", "25"]
    scores = classifier.score_function(folder_logits(classifier, known, "cpu").logits)
    kept = int(np.ceil(0.8 * len(scores) - 1e-9))
    assert made.classifier.calibration.bias == -float(np.sort(scores)[kept - 1])
    assert made.classifier.calibration.num_images == len(scores)
    for name, weights in classifier.net.state_dict().items():
        np.testing.assert_array_equal(made.classifier.net.state_dict()[name].numpy(), weights.numpy())
    assert f"{100 * kept / len(scores):.1f} % of {len(scores)} images stay known (target 80 %)" in text
    assert f"models:/own/{made.version.number} (candidate); the champion is version 1" in text
    listed = printed(print_models, "own")[1]
    assert " recalibrated from 1 " in listed
    assert f" to keep {100 * made.classifier.calibration.target_rate:.4g} % " in listed
    figures = {name: float(made.version.tags[name]) for name in ("dev/auroc", "val/known_rate")}
    assert figures["dev/auroc"] == pytest.approx(classifier.results["dev/auroc"], abs=1e-6), "it is rounded once"
    assert figures["val/known_rate"] < classifier.results["val/known_rate"] - 0.05
    run_id = registry.client.get_model_version("own", made.version.number).run_id
    measured = registry.client.get_run(run_id).data.metrics
    assert not any(name.startswith("test/") for name in measured), "test images were measured with another bias"
    printed(calibrate, CalibrateRequest("models:/own/1", known, 0.8))
    title = f"calibrate: own version 1 on {known.name}"
    runs = registry.client.search_runs([experiment_id(registry.client)], f"attributes.run_name = '{title}'")
    assert [run.info.run_id for run in runs if run.data.params["target_rate"] == "0.8"] == [run_id]


def test_a_calibration_that_was_cut_off_goes_on_in_its_run(
    registry: Registry, known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, client = CalibrateRequest("models:/own/1", known, 0.75), registry.client
    for owner, name in ((mlflow, "register_model"), (MlflowClient, "set_terminated")):
        with monkeypatch.context() as cut_off:
            cut_off.setattr(MlflowClient, "set_terminated", lost)
            cut_off.setattr(owner, name, lost)
            with pytest.raises(ConnectionError):
                printed(calibrate, request)
    printed(calibrate, request)
    made = load("models:/own@candidate").version
    assert made is not None
    runs = client.search_runs([experiment_id(client)], "params.target_rate = '0.75'")
    run_id = client.get_model_version("own", made.number).run_id
    assert [(run.info.run_id, run.info.status) for run in runs] == [(run_id, "FINISHED")]
    assert len(client.get_metric_history(run_id, "calibration/known_rate")) == 1


def lost(*_: object, **__: object) -> None:
    raise ConnectionError


def test_without_a_name_a_model_is_the_only_one_or_the_default_one(registry: Registry) -> None:
    assert printed(print_models, "")[1].startswith("own in ")
    with named_too(registry, "other"):
        with pytest.raises(TrackingError, match="has 2 models: other, own; name one with --model-name other"):
            printed(rollback, "", "champion")
        with named_too(registry, "proser"), pytest.raises(TrackingError, match="no version of a model 'proser'"):
            printed(promote, PromoteRequest())


@contextmanager
def named_too(registry: Registry, name: str) -> Iterator[None]:
    """With another model, without versions, for a while."""
    registry.client.create_registered_model(name)
    yield
    registry.client.delete_registered_model(name)


def test_its_card_says_what_was_measured_with_what(registry: Registry, known: Path) -> None:
    printed(calibrate, CalibrateRequest("models:/own/1", known, 0.85))
    made = load("models:/own@candidate")
    card = model_card(made.classifier)
    assert "(target 85 %)" in card
    assert "`proser calibrate` fits it to other images, which must not be those of the training." in card
    before = load("models:/own/1").classifier
    notice = f"before the recalibration, with the threshold {-before.calibration.bias:.4f}"
    assert card.index(notice) < card.index("| before recalibration |")
    assert "| this model |" not in card
    assert "recalibration" not in model_card(before)
    assert "% of the test images were)" in model_card(before)
    assert "% of the test images were)" not in card
    assert "Of the known test images" in model_card(before)
    assert "Of the known test images" not in card
    assert card.count("## Results") == 1
    assert "| MaxLogit |" in card


@pytest.mark.parametrize(("share", "is_warned"), [(0.0, False), (0.2, True), (1.0, False)])
def test_images_of_the_folder_that_was_trained_on_are_warned_of(
    registry: Registry, classifier: OpenSetClassifier, known: Path, tmp_path: Path, share: float, is_warned: bool
) -> None:
    """Of its training a model knows the validation images: where they are, those of the training may be."""
    files = sorted(known.glob("*/*.png"))
    count = math.ceil(share * len(files))
    scores = classifier.validation_scores
    assert scores is not None
    contents = np.zeros(len(files) + len(scores.targets), np.uint64)
    contents[: len(files)] = numbered([digest_of(file.read_bytes()) for file in files])
    targets = np.zeros(len(contents), np.int64)
    targets[count : len(files)] = scores.num_known  # the others of the folder were development images
    held = replace(
        scores,
        scores=np.zeros(len(contents)),
        known_predictions=np.zeros(len(contents), np.int64),
        targets=targets,
        images=None,
        contents=contents,
    )
    number = registry.add(replace(classifier, validation_scores=held)).version
    code, text = printed(calibrate, CalibrateRequest(f"models:/own/{number}", known, 0.8))
    assert code == 0
    seen = f"{count} of these images are validation images of the model's training."
    assert (seen in text) == is_warned
    shutil.copytree(known, tmp_path / "both")
    shutil.copytree(next(known.iterdir()), tmp_path / "both/unseen")
    code, text = printed(evaluate, EvaluateRequest(f"models:/own/{number}", tmp_path / "both"))
    assert code == 0
    assert "counted as unknown: unseen" in text
    assert (seen in text) == is_warned, "images of other folders do not count"


def test_it_can_be_compared_with_the_model_that_it_was_made_of(registry: Registry, known: Path) -> None:
    printed(calibrate, CalibrateRequest("models:/own/1", known, 0.9))
    code, text = printed(promote, PromoteRequest("own", tolerance=0.3, force=True))
    assert code == 0
    assert "AUROC" in text
    assert "+0.0 to +0.0" in text, "the order of the scores is the same"
    assert METRICS["known_accuracy"] not in text, "it was measured with another bias"


def test_its_run_is_titled_by_the_folder_also_where_that_is_the_working_directory(
    registry: Registry, known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(known)
    printed(calibrate, CalibrateRequest("models:/own/1", Path(), 0.75))
    run_id = registry.client.get_model_version_by_alias("own", "candidate").run_id
    assert registry.client.get_run(run_id).info.run_name == f"calibrate: own version 1 on {known.name}"


def test_a_run_whose_version_cannot_be_registered_is_marked_as_failed(
    registry: Registry, known: Path, monkeypatch: pytest.MonkeyPatch
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
    registry: Registry, classifier: OpenSetClassifier, known: Path, tmp_path: Path
) -> None:
    """Without such folders, all images count."""
    images = known / classifier.class_names[0]
    code, text = printed(calibrate, CalibrateRequest("models:/own/1", images, 0.8))
    assert (code, "skipped" in text) == (0, False)
    assert f"no folder of a class in {images}: all images are treated as known" in text
    (tmp_path / images.name).symlink_to(images)
    Image.new("RGB", (8, 8)).save(tmp_path / "stray.png")
    code, text = printed(calibrate, CalibrateRequest("models:/own/1", tmp_path, 0.8))
    assert (code, "skipped: 1 image in no folder of a class" in text) == (1, True)
    assert load("models:/own@candidate").classifier.calibration.num_images == len(list(images.iterdir()))


def test_images_of_other_classes_are_left_out_by_name_and_refused_alone(
    registry: Registry, classifier: OpenSetClassifier, labelled: Path, known: Path, tmp_path: Path
) -> None:
    others = sorted({folder.name for folder in labelled.iterdir()} - set(classifier.class_names))
    _, text = printed(calibrate, CalibrateRequest("models:/own/1", labelled, 0.65))
    assert f"left out, as own version 1 does not know them: {', '.join(others)}\n" in text
    assert "proser promote --model-name own (it compares on images of the training; add --force where" in text
    made = load("models:/own@candidate").classifier.calibration
    printed(calibrate, CalibrateRequest("models:/own/1", known, 0.65))
    assert load("models:/own@candidate").classifier.calibration == made
    (tmp_path / others[0]).symlink_to(labelled / others[0])
    with pytest.raises(DataError, match=f"has images in the folders {others[0]}; need one of a class that own version"):
        printed(calibrate, CalibrateRequest("models:/own/1", tmp_path))


def test_a_parquet_file_whose_labels_would_not_be_read_is_refused(registry: Registry, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"image": [{"bytes": b""}], "label": [0]}), tmp_path / "set.parquet")
    with pytest.raises(DataError, match="has a Parquet file, whose labels are not read; give image files"):
        printed(calibrate, CalibrateRequest("models:/own/1", tmp_path))


def test_a_model_in_a_folder_is_refused(classifier: OpenSetClassifier, known: Path, tmp_path: Path) -> None:
    classifier.save(tmp_path)
    with pytest.raises(TrackingError, match="is a folder; a new version needs a registered model"):
        printed(calibrate, CalibrateRequest(str(tmp_path), known))
