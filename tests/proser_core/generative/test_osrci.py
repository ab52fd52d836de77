"""OSRCI on two digits: the counterfactuals, and the classifier that is trained on them."""

import copy

import numpy as np
import pytest
from own_trainings import CPU, digits, plain_training, train_on_digits
from small_tasks import bit_equal

from proser_core.errors import TrainingError
from proser_core.generative import osrci
from proser_core.generative.autoencoding_gan import AUTOENCODING_GAN
from proser_core.generative.counterfactuals import unknown_losses
from proser_core.generative.one_vs_rest import ONE_VS_REST, QUICK
from proser_core.generative.osrci import DISTANCE_WEIGHTS, FULL, OSRCI, choose_weight, search_from
from proser_core.generative.pixels import PixelBatches
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.scores.own_networks import ZeroLogitGap

SMALL = {"width": 16, "epochs": 2, "least_steps": 20, "lr": 1e-3, "generated": 32, "dropout": 0.0}


@pytest.fixture(scope="module")
def parts():
    gan = train_on_digits(AUTOENCODING_GAN, width=16, codes=16, epochs=1, least_steps=80, lr=4e-3)
    classifier = train_on_digits(ONE_VS_REST, width=16, epochs=1, least_steps=120, dropout=0.0)
    return {AUTOENCODING_GAN.name: gan.net, ONE_VS_REST.name: classifier.net}


@pytest.fixture(scope="module")
def before(parts):
    """The weights of the parts, as OSRCI was given them."""
    return {name: copy.deepcopy(part.state_dict()) for name, part in parts.items()}


@pytest.fixture(scope="module")
def trained(parts, before):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(osrci, "PROBED", 16)  # of 32
        return train_on_digits(OSRCI, parts, **SMALL)


@pytest.mark.slow
def test_the_crossing_rate_is_the_share_of_searches_that_end_open(parts, trained):
    gan, classifier = parts.values()
    facts = trained.trained.facts
    starts, _ = PixelBatches(plain_training(QUICK), f"{OSRCI.name} starts").first(32)
    found = search_from(starts, gan, classifier, facts["distance_weight"])
    assert facts["distance_weight"] in DISTANCE_WEIGHTS
    assert facts["crossing_rate"] == pytest.approx(float((classifier(found.pixels) < 0).all(dim=1).float().mean()))
    assert facts["crossing_rate"] > 0.05


def test_counterfactuals_are_less_known_than_the_reconstructions_of_their_starts(parts, trained):
    gan, classifier = parts.values()
    starts, _ = PixelBatches(plain_training(QUICK), "any").first(64)
    found = search_from(starts, gan, classifier, trained.trained.facts["distance_weight"])
    before, after = unknown_losses(classifier(gan(starts))), unknown_losses(classifier(found.pixels))
    assert float((after < before).float().mean()) >= 0.9


def test_the_classifier_names_real_images_and_finds_no_class_in_counterfactuals(parts, trained):
    gan, classifier = parts.values()
    net = trained.net.classifier
    pixels, targets = PixelBatches(plain_training(QUICK), f"{OSRCI.name} starts").first(64)
    made = search_from(pixels, gan, classifier, trained.trained.facts["distance_weight"]).pixels
    logits = net(pixels)
    assert float(((logits.argmax(dim=1) == targets) & (logits.amax(dim=1) > 0)).float().mean()) > 0.95
    assert float((net(made).amax(dim=1) < 0).float().mean()) > 0.8


def test_unknown_digits_score_above_known_ones(trained):
    task = digits()
    known, unknown = (
        ZeroLogitGap()(compute_logits(trained.net, part.images, (task.mean, task.std), CPU))
        for part in (task.val, task.development)
    )
    assert (known[:, None] < unknown).mean() > 0.8


def test_the_parts_stay_as_they_were(parts, before, trained):
    assert all(bit_equal(before[name], part.state_dict()) for name, part in parts.items())


def test_the_first_weight_with_half_of_the_searches_open_is_taken_else_the_best():
    assert choose_weight({1.0: 0.5}.__getitem__, least=0.05) == (1.0, {"1": 0.5})
    assert choose_weight({1.0: 0.2, 0.1: 0.7}.__getitem__, least=0.05) == (0.1, {"1": 0.2, "0.1": 0.7})
    assert choose_weight({1.0: 0.2, 0.1: 0.3, 0.01: 0.1}.__getitem__, least=0.05)[0] == 0.1


def test_searches_that_hardly_ever_end_open_are_an_error_that_says_so():
    with pytest.raises(TrainingError, match=r"4\.0% of the searches"):
        choose_weight({1.0: 0.0, 0.1: 0.01, 0.01: 0.04}.__getitem__, least=0.05)


def test_full_is_as_the_authors_script_has_it():
    assert (FULL.epochs, FULL.batch_size, FULL.lr, FULL.generated) == (3, 64, 1e-5, 3200)


def test_the_picture_has_images_reconstructions_and_counterfactuals(trained):
    (picture,) = trained.trained.pictures.values()
    assert picture.shape == (3, 8, 8, 8, 3)
    errors = np.abs(picture[1:].astype(float) - picture[0]).mean(axis=(1, 2, 3, 4))
    assert errors[0] < errors[1]
