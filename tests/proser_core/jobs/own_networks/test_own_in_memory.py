"""A method with a network of its own as a classifier: trained in memory, saved, loaded, and as exported program."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from own_networks import BLUR, METHOD, NEAREST
from own_trainings import DIGITS, digits
from small_tasks import random_images

from proser_core.config import CalibrationConfig, Recipe
from proser_core.errors import CheckpointError, ConfigError
from proser_core.generative.networks import OWN_NETWORKS, restored
from proser_core.generative.own_network import TaskShape
from proser_core.jobs.in_memory import train
from proser_core.jobs.own_networks.plans import check_servable, with_needs
from proser_core.networks.folding import for_inference
from proser_core.recognition.classifier_files import WEIGHTS
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.program import export_program

RECIPE = Recipe(data=DIGITS, precision="fp32", calibration=CalibrationConfig(target_rate=0.8))


@pytest.fixture(autouse=True)
def own_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    for network in (BLUR, NEAREST):
        monkeypatch.setitem(OWN_NETWORKS, network.name, network)


@pytest.fixture
def classifier() -> OpenSetClassifier:
    return train(digits(), RECIPE, METHOD)


def test_a_classifier_predicts_the_same_after_it_was_saved_and_loaded(
    classifier: OpenSetClassifier, tmp_path: Path
) -> None:
    classifier.save(tmp_path / "saved")
    loaded = OpenSetClassifier.load(tmp_path / "saved")
    images = random_images(5, 8)
    expected = classifier.predict(images)
    for one in (loaded, replace(loaded, net=for_inference(loaded.net, "cpu"))):
        found = one.predict(images)
        assert found.labels == expected.labels
        np.testing.assert_array_equal(found.unknown_scores, expected.unknown_scores)
    assert loaded.own == classifier.own
    assert loaded.calibration.target_rate == RECIPE.calibration.target_rate
    assert loaded.architecture == "Nearest (mean), plain"


def test_it_is_scored_by_its_method_whatever_score_the_recipe_names(classifier: OpenSetClassifier) -> None:
    named = train(digits(), replace(RECIPE, calibration=replace(RECIPE.calibration, score="auto")), METHOD)
    assert named.score_function == classifier.score_function
    assert named.calibration == classifier.calibration
    assert named.notes == classifier.notes


def test_torchs_generator_and_choice_of_algorithms_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)
    before = torch.get_rng_state()
    train(digits(), RECIPE, METHOD)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.backends.cudnn.deterministic


def test_a_network_that_this_process_does_not_know_is_named(
    classifier: OpenSetClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier.save(tmp_path)
    monkeypatch.delitem(OWN_NETWORKS, NEAREST.name)
    with pytest.raises(
        CheckpointError, match=r"of a network 'Nearest \(mean\), plain'.* import the module that adds it"
    ):
        OpenSetClassifier.load(tmp_path)


def test_a_schedule_of_another_version_is_an_error_of_the_file(classifier: OpenSetClassifier, tmp_path: Path) -> None:
    classifier.save(tmp_path)
    schedule = {**classifier.own.schedule, "depth": 9}
    with pytest.raises(CheckpointError, match=r"'Nearest \(mean\), plain'.*no field of \w+ is called 'depth'"):
        restored(NEAREST.name, schedule, TaskShape(2, 8), tmp_path / WEIGHTS)


def test_it_is_exported_as_a_program(classifier: OpenSetClassifier, tmp_path: Path) -> None:
    images = random_images(5, 8)
    export_program(classifier, tmp_path / "program.pt2")
    indices, _, _ = torch.export.load(tmp_path / "program.pt2").module()(torch.from_numpy(images))
    np.testing.assert_array_equal(indices.numpy(), classifier.predict(images).indices)


def test_the_schedule_is_that_which_is_asked_for_and_a_task_that_does_not_suit_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = train(digits(), RECIPE, METHOD, own_networks="full")
    assert full.own is not None
    assert full.own.schedule["epochs"] == 3
    picky = replace(NEAREST, refusal=lambda shape: "two classes are too few")
    monkeypatch.setitem(OWN_NETWORKS, NEAREST.name, picky)
    with pytest.raises(ConfigError, match="plain cannot be trained on digits: two classes are too few"):
        train(digits(), RECIPE, METHOD)
    mirrored = replace(RECIPE, calibration=replace(RECIPE.calibration, mirror=True))
    with pytest.raises(ConfigError, match=f"images are not mirrored for {METHOD.name}"):
        train(digits(), mirrored, METHOD)


def test_what_a_need_needs_refuses_a_task_too(monkeypatch: pytest.MonkeyPatch) -> None:
    deepest = replace(BLUR, name="deepest", refusal=lambda shape: "it is too small")
    middle = replace(BLUR, name="middle", needs=("deepest",))
    top = replace(BLUR, name="top", needs=("middle", "deepest"))
    for network in (deepest, middle, top):
        monkeypatch.setitem(OWN_NETWORKS, network.name, network)
    assert with_needs(top) == [deepest, middle, top]
    with pytest.raises(ConfigError, match="top cannot be trained on digits: it is too small"):
        check_servable(top, RECIPE)
