import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_tasks import CPU, NORMALISATION, SIZE, make_classifier, random_images, tiny_backbone, tiny_net

from proser_core import OpenSetClassifier
from proser_core.errors import CheckpointError, ConfigError, DataError
from proser_core.networks.nets import BACKBONES
from proser_core.networks.weights import save_weights
from proser_core.recognition import classifier_files
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.classifier_files import CARD, MODEL_CARD, SCORE, WEIGHTS
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.scores import SCORES, PlaceholderGap, ScoreFunction

IMAGES = random_images(50, seed=5)
FORMAT_3 = Path(__file__).parent / "golden" / "classifier_format_3"
"""Written by the code of that format: a tiny network, its validation scores, and what it predicted."""


@pytest.fixture(scope="module")
def saved(classifier, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    classifier.save(folder)
    return folder


@pytest.fixture(scope="module")
def classifier() -> OpenSetClassifier:
    return make_classifier()


@pytest.mark.parametrize("score", SCORES)
def test_every_score_of_every_network_survives_saving(score, tmp_path):
    classifier = make_classifier(score)
    classifier.save(tmp_path)
    loaded = OpenSetClassifier.load(str(tmp_path))
    assert type(loaded.score_function) is SCORES[score]
    assert loaded.num_dummies == classifier.num_dummies == (2 if SCORES[score].needs_dummies else 0)
    before, after = classifier.predict(IMAGES), loaded.predict(IMAGES)
    np.testing.assert_array_equal(before.unknown_scores, after.unknown_scores)
    np.testing.assert_array_equal(before.probabilities, after.probabilities)
    np.testing.assert_array_equal(before.indices, after.indices)
    assert before.labels == after.labels
    assert "unknown" in before.labels
    for name in ("network", "image_size", "split", "class_names", "normalisation", "calibration", "recipe"):
        assert getattr(loaded, name) == getattr(classifier, name)


@pytest.mark.parametrize("weight", [np.float32(0.5), np.float64(0.5), np.int64(2)])
def test_a_number_of_numpys_in_a_score_is_saved_as_pythons(classifier, weight, tmp_path):
    dataclasses.replace(classifier, score_function=PlaceholderGap(weight)).save(tmp_path)
    assert OpenSetClassifier.load(tmp_path).score_function == PlaceholderGap(float(weight))


def test_a_save_that_fails_leaves_the_classifier_that_was_there_and_one_that_works_replaces_it(classifier, tmp_path):
    classifier.save(tmp_path)
    (tmp_path / "notes.txt").write_text("a user's own")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    other = dataclasses.replace(make_classifier("MSP"), results={"accuracy": 0.5})
    with pytest.raises(TypeError):
        dataclasses.replace(other, results={"accuracy": 1j}).save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    for name in (".saving-killed", ".saving-running"):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / ".saving-killed", (0, 0))
    other.save(tmp_path)
    assert OpenSetClassifier.load(tmp_path).results == other.results
    assert {path.name for path in tmp_path.iterdir()} == {*before, ".saving-running"}
    assert (tmp_path / "notes.txt").read_text() == "a user's own"


def test_arrays_of_a_fitted_score_that_were_changed_are_refused(tmp_path):
    make_classifier("OpenMax").save(tmp_path)
    with np.load(tmp_path / SCORE) as arrays:
        changed = dict(arrays) | {"means": arrays["means"] + 1}
    np.savez_compressed(tmp_path / SCORE, **changed)
    with pytest.raises(CheckpointError, match=f"{SCORE} was changed after it was saved"):
        OpenSetClassifier.load(tmp_path)


def test_a_score_that_is_not_there_is_refused_with_what_to_import(monkeypatch, tmp_path):
    make_classifier("MSP").save(tmp_path)
    monkeypatch.setattr(classifier_files, "SCORES", {"MaxLogit": SCORES["MaxLogit"]})
    with pytest.raises(CheckpointError, match=r"is scored by 'MSP', and there is MaxLogit, .*; import the module"):
        OpenSetClassifier.load(tmp_path)


@dataclasses.dataclass(frozen=True)
class Twin(ScoreFunction):
    """A score of a user's own, by the name of another one."""

    name = "MSP"

    def of_table(self, logits: LogitTable) -> np.ndarray:
        return logits.known.max(axis=1)


@pytest.mark.parametrize(("name", "has"), [("MSP", "another one"), ("mine", "none")])
def test_a_score_that_would_be_loaded_as_another_one_is_not_saved(classifier, monkeypatch, name, has, tmp_path):
    monkeypatch.setattr(Twin, "name", name)
    own = dataclasses.replace(classifier, score_function=Twin())
    with pytest.raises(ConfigError, match=f"'{name}' of Twin .* has {has} of that name. .* SCORES.Twin.name. = Twin"):
        own.save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_score_that_needs_dummies_is_refused_for_a_network_without():
    with pytest.raises(ConfigError, match="the score gap needs a network with dummy classifiers"):
        dataclasses.replace(make_classifier("MSP"), score_function=PlaceholderGap())


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "model")


def test_a_prediction_is_the_largest_entry_of_the_shifted_logits(classifier):
    logits = compute_logits(classifier.net, IMAGES, NORMALISATION, CPU)
    predictions = classifier.predict(IMAGES)
    names = [*classifier.class_names, "unknown"]
    assert set(predictions.indices.tolist()) >= {3}
    assert len(set(predictions.indices.tolist())) > 1
    for i, (known, dummies) in enumerate(zip(logits.known.tolist(), logits.dummies.tolist(), strict=True)):
        row = [*known, max(dummies) + classifier.calibration.bias]
        if abs(row[-1] - max(known)) > 1e-4:
            assert predictions.indices[i] == row.index(max(row))
        assert predictions.labels[i] == names[predictions.indices[i]]
        assert predictions.unknown_scores[i] == pytest.approx(row[-1] - max(known), abs=1e-4)
        powers = np.exp(np.array(row) - max(row))
        np.testing.assert_allclose(predictions.probabilities[i], powers / powers.sum(), rtol=1e-4)


def test_a_tie_at_the_bias_goes_to_the_known_class(classifier):
    logits = compute_logits(classifier.net, IMAGES, NORMALISATION, CPU)
    gaps = PlaceholderGap()(logits)
    for row in range(5):
        for bias, is_known in ((-gaps[row], True), (np.nextafter(-gaps[row], np.float32(np.inf)), False)):
            calibration = dataclasses.replace(classifier.calibration, bias=float(bias))
            predictions = dataclasses.replace(classifier, calibration=calibration).predict(IMAGES)
            assert (predictions.indices[row] < 3) == is_known
            assert (predictions.unknown_scores[row] <= 0) == is_known
            assert (predictions.labels[row] != "unknown") == is_known
            assert predictions.columns(classifier.class_names)["unknown"][row] == (not is_known)


def test_the_score_of_an_image_does_not_depend_on_its_batch(classifier):
    together = classifier.predict(IMAGES).unknown_scores
    for rows in ([0], [49], [3, 3, 3], list(range(20, 45)), list(range(49, -1, -1))):
        np.testing.assert_allclose(classifier.predict(IMAGES[rows]).unknown_scores, together[rows], atol=1e-4)


@pytest.mark.parametrize("shape", [(16, 16), (5, 20), (8, 9)])
def test_images_of_another_size_are_resampled(classifier, shape):
    images = np.random.default_rng(0).integers(0, 256, (6, *shape, 3), dtype=np.uint8)
    resized = [Image.fromarray(image).resize((SIZE, SIZE), Image.Resampling.BICUBIC) for image in images]
    expected = classifier.predict(np.stack([np.asarray(image) for image in resized]))
    np.testing.assert_array_equal(classifier.predict(images).unknown_scores, expected.unknown_scores)


@pytest.mark.parametrize("shape", [(SIZE, SIZE), (SIZE, SIZE, 1), (13, 13), (13, 13, 1)])
def test_grey_images_are_taken_as_rgb(classifier, shape):
    grey = np.random.default_rng(0).integers(0, 256, (4, *shape), dtype=np.uint8)
    rgb = np.repeat(grey.reshape(4, *shape[:2], 1), 3, axis=3)
    np.testing.assert_array_equal(classifier.predict(grey).unknown_scores, classifier.predict(rgb).unknown_scores)


@pytest.mark.parametrize(
    "images",
    [
        IMAGES.astype(np.float32) / 255,
        IMAGES.astype(np.int64),
        IMAGES.transpose(0, 3, 1, 2),
        IMAGES[..., :2],
        IMAGES[0, 0],
        IMAGES[0],
        IMAGES[None],
        IMAGES[:0],
        IMAGES[:, :0],
    ],
    ids=[
        "float32",
        "int64",
        "channels first",
        "two channels",
        "two axes",
        "one in colour",
        "five axes",
        "none",
        "no height",
    ],
)
def test_images_of_another_type_or_shape_are_refused_with_what_was_got(classifier, images):
    with pytest.raises(DataError, match=rf"got images of {images.dtype}\[.*need at least one, as uint8\[N, height"):
        classifier.predict(images)


def test_changed_weights_are_refused_by_name(classifier, folder):
    other = make_classifier()
    other.net.dummies.bias.data += 1
    save_weights(other.net, folder / WEIGHTS)
    with pytest.raises(CheckpointError, match=rf"{WEIGHTS} was changed after it was saved"):
        OpenSetClassifier.load(folder)


@pytest.mark.parametrize("name", [CARD, WEIGHTS])
def test_a_missing_file_is_refused_by_name(folder, name):
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} is missing"):
        OpenSetClassifier.load(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[]", b"3", b"[" * 100_000])
def test_a_card_that_is_no_json_object_is_refused(folder, content):
    (folder / CARD).write_bytes(content)
    with pytest.raises(CheckpointError, match=CARD):
        OpenSetClassifier.load(folder)


def test_a_model_folder_holds_nothing_that_is_pickled(folder):
    assert sorted(path.name for path in folder.iterdir()) == [MODEL_CARD, CARD, WEIGHTS]


def test_weights_of_another_network_with_their_own_checksum_are_refused(classifier, tmp_path):
    dataclasses.replace(classifier, net=tiny_net(3, 2)).save(tmp_path)
    with pytest.raises(CheckpointError, match="does not fit the network"):
        OpenSetClassifier.load(tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        ("ant", "bee", "ant"),
        ("ant", "unknown", "cow"),
        ("ant", "Unknown", "cow"),
        ("ant", "unknown\u200d", "cow"),
        ("ant", "K\u00e4fer", "Ka\u0308fer"),
        ("ant", "\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u062e"),
    ],
)
def test_class_names_that_mean_two_things_are_refused(classifier, names):
    with pytest.raises(DataError, match="would mean two things"):
        dataclasses.replace(classifier, class_names=names)


def test_class_names_of_scripts_and_emoji_that_are_spelt_with_joiners_are_taken(classifier):
    names = ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f469\u200d\U0001f52c", "cow")
    assert dataclasses.replace(classifier, class_names=names).class_names == names


def test_a_classifier_of_format_3_which_had_margins_predicts_the_same(monkeypatch, tmp_path):
    monkeypatch.setitem(BACKBONES, "tiny", lambda config, image_size: tiny_backbone())
    old = OpenSetClassifier.load(FORMAT_3)
    old.save(tmp_path)
    for classifier in (old, OpenSetClassifier.load(tmp_path)):
        with np.load(FORMAT_3 / "predictions.npz") as then:
            now = classifier.predict(then["images"])
            np.testing.assert_allclose(now.unknown_scores, then["unknown_scores"], atol=1e-6)
            np.testing.assert_array_equal(now.indices, then["indices"])
            np.testing.assert_allclose(now.probabilities, then["probabilities"], atol=1e-6)
        for scores in (classifier.validation_scores, classifier.proxy.validation_scores):
            metrics = {f"dev/{name}": value for name, value in scores.metrics(classifier.calibration.bias).items()}
            assert metrics == {name: classifier.results[name] for name in metrics}
            known = scores.scores[scores.is_known]
            assert calibrate(known, classifier.calibration.target_rate) == classifier.calibration
