"""Classifiers with a score of embeddings, of mirrored images, or of several networks: saved, loaded, exported, and told
from others."""

import dataclasses

import numpy as np
import pytest
import torch
from small_tasks import CPU, NORMALISATION, make_classifier, random_images
from torch import nn

from proser_core.errors import ConfigError
from proser_core.recognition.embedding_table import compute_embedding_table
from proser_core.recognition.logit_tables import FittingData
from proser_core.recognition.model_card import model_card
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.program import PROGRAM, Decision, export_program
from proser_core.recognition.scores import FURTHER_SCORES
from proser_core.recognition.trained_classifier import Member

IMAGES = random_images(37, seed=4)


@pytest.mark.parametrize(
    ("score", "mirror"), [*((score, False) for score in FURTHER_SCORES), ("energy", True), ("KNN", True)]
)
def test_a_classifier_with_any_score_is_saved_and_predicts_the_same_when_loaded(score, mirror, tmp_path):
    classifier = make_classifier(score, mirror=mirror)
    classifier.save(tmp_path)
    loaded, expected = OpenSetClassifier.load(tmp_path), classifier.predict(IMAGES)
    assert (loaded.score_function.name, loaded.mirror) == (score, mirror)
    for image in (slice(0, 1), slice(0, 37)):
        found = loaded.predict(IMAGES[image])
        np.testing.assert_allclose(found.unknown_scores, expected.unknown_scores[image], rtol=1e-4, atol=1e-5)
    decision = Decision(classifier).eval()
    _, scores, probabilities = decision(torch.from_numpy(IMAGES))  # what is exported
    np.testing.assert_allclose(scores, expected.unknown_scores, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(probabilities, expected.probabilities, atol=1e-4)


@pytest.mark.parametrize(
    ("score", "members"),
    [
        ("KNN", 1),
        pytest.param("relative-Mahalanobis", 1, marks=pytest.mark.slow),
        pytest.param("fDBD", 1, marks=pytest.mark.slow),
        pytest.param("fDBD", 3, marks=pytest.mark.slow),
    ],
)
def test_a_score_of_embeddings_is_exported_for_any_number_of_images(score, members, tmp_path):
    classifier = make_classifier(score, mirror=True, members=members)
    export_program(classifier, tmp_path / PROGRAM)
    program = torch.export.load(tmp_path / PROGRAM).module()
    for count in (1, 37):
        found = program(torch.from_numpy(IMAGES[:count]))
        np.testing.assert_allclose(found[1], classifier.predict(IMAGES[:count]).unknown_scores, rtol=1e-4, atol=1e-4)


def test_mirrored_images_are_scored_alike_and_change_a_prediction():
    plain, mirrored = (make_classifier("MSP", mirror=mirror) for mirror in (False, True))
    both = [mirrored.predict(images).unknown_scores for images in (IMAGES, IMAGES[:, :, ::-1])]
    np.testing.assert_allclose(*both, atol=1e-5)
    assert np.abs(plain.predict(IMAGES).unknown_scores - both[0]).max() > 1e-4


@pytest.mark.parametrize(("score", "mirror"), [("gap", False), ("KNN", True)])
def test_an_ensemble_is_saved_and_predicts_the_same_when_loaded(score, mirror, tmp_path):
    member = Member("a key", "beta=1", {"dev/auroc": 0.9})
    classifier = dataclasses.replace(make_classifier(score, mirror=mirror, members=3), members=(member,) * 3)
    classifier.save(tmp_path)
    loaded, expected = OpenSetClassifier.load(tmp_path), classifier.predict(IMAGES)
    found = loaded.predict(IMAGES)
    for name in ("indices", "unknown_scores", "probabilities"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert loaded.net.dummies_of_members == (2, 3, 4)
    assert (loaded.members, loaded.forward_passes) == (classifier.members, 3)


def test_an_ensembles_card_says_what_it_costs():
    ensemble = make_classifier(members=2)
    assert "Network classifier32, an ensemble of 2 with dummy classifiers" in model_card(ensemble)
    assert "so that each prediction takes 2 forward passes" in model_card(ensemble)
    assert "forward pass" not in model_card(make_classifier())


def test_what_further_scores_are_fitted_to_is_kept_with_the_classifier(tmp_path):
    classifier = make_classifier("cosine")
    table = compute_embedding_table(classifier.net, IMAGES, NORMALISATION, CPU)
    data = FittingData({"train": table, "val": table}, np.arange(37) % 3)
    dataclasses.replace(classifier, fitting=data).save(tmp_path)
    loaded = OpenSetClassifier.load(tmp_path).fitting
    np.testing.assert_array_equal(loaded.targets, data.targets)
    for part in ("train", "val"):
        np.testing.assert_array_equal(loaded.tables[part].embeddings, table.embeddings)


def test_the_card_names_score_paper_and_mirrored_images():
    card = model_card(make_classifier("KNN", mirror=True))
    assert "its score, KNN (Sun et al. 2022): distance of directions" in card
    assert "averaged with the mirrored image, is above" in card
    assert "averaged with" not in model_card(make_classifier("MSP"))


def test_a_network_without_an_embedding_is_refused():
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    with pytest.raises(ConfigError, match="no single linear classifier on an embedding"):
        dataclasses.replace(make_classifier("cosine"), net=net)
