"""G-OpenMax by interpolation: images between two others that a classifier is unsure of, and its score."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from own_trainings import CPU, digits, plain_training, train_on_digits
from torch import nn

from proser_core.errors import TrainingError
from proser_core.generative.autoencoding_gan import AUTOENCODING_GAN
from proser_core.generative.g_openmax_interpolation import (
    G_OPENMAX_INTERPOLATION,
    QUICK,
    _interpolated,
    interpolate,
    unsure_images,
)
from proser_core.generative.one_vs_rest import ONE_VS_REST
from proser_core.learning import tails
from proser_core.recognition.logits import compute_logits

SMALL = {"width": 8, "epochs": 2, "least_steps": 5, "generated": 32}


@pytest.fixture(scope="module")
def parts():
    gan = train_on_digits(AUTOENCODING_GAN, task=digits(5), width=8, codes=16, epochs=1, least_steps=30, lr=4e-3)
    classifier = train_on_digits(ONE_VS_REST, task=digits(5), width=8, epochs=1, least_steps=15, dropout=0.0)
    return {AUTOENCODING_GAN.name: gan.net, ONE_VS_REST.name: classifier.net}


@pytest.fixture(scope="module")
def trained(parts):
    return train_on_digits(G_OPENMAX_INTERPOLATION, parts, task=digits(5), **SMALL)


@pytest.mark.slow
def test_the_ends_of_an_interpolation_are_the_two_reconstructions(parts):
    gan = parts[AUTOENCODING_GAN.name]
    first, second = torch.rand(2, 2, 3, 8, 8)
    for share, end in ((1.0, first), (0.0, second)):
        torch.testing.assert_close(interpolate(gan, first, second, torch.full((2, 1, 1, 1), share)), gan(end))


def test_codes_between_two_are_not_put_back_on_the_sphere(parts):
    gan = parts[AUTOENCODING_GAN.name]
    first, second = torch.rand(2, 1, 3, 8, 8)
    middle = (gan.encode(first) + gan.encode(second)) / 2
    assert float(middle.norm()) < 1
    torch.testing.assert_close(interpolate(gan, first, second, torch.full((1, 1, 1, 1), 0.5)), gan.decode(middle))


def test_no_class_has_half_of_the_probability_of_an_image_that_is_kept(parts):
    gan, classifier = parts.values()
    training = plain_training(replace(QUICK, generated=20), digits(5))
    made = unsure_images(gan, classifier, training)
    assert made.pixels.shape == (20, 3, 8, 8)
    assert float(classifier(made.pixels).softmax(dim=1).max()) < 0.5
    assert 0 < made.rate <= 1


def test_where_too_few_are_unsure_the_least_sure_of_all_drawn_are_taken(parts):
    gan, classifier = parts[AUTOENCODING_GAN.name], Between()
    training = plain_training(replace(QUICK, generated=4), digits(5))
    made = unsure_images(gan, classifier, training)
    drawn = torch.cat([pixels for pixels, _ in zip(_interpolated(gan, training), range(2), strict=False)])
    assert made.rate == 0
    least = classifier(drawn).softmax(dim=1).amax(dim=1).sort().values[:4]
    torch.testing.assert_close(made.best, least)
    torch.testing.assert_close(classifier(made.pixels).softmax(dim=1).amax(dim=1), least)


class Between(nn.Module):
    """More sure of brighter images, and never less than 0.5."""

    def forward(self, pixels):
        return torch.stack([pixels.mean(dim=(1, 2, 3)), torch.zeros(len(pixels))], dim=1)


class Sure(nn.Module):
    """Names every image as the first class."""

    def forward(self, pixels):
        return torch.tensor([[9.0, 0.0]]).expand(len(pixels), -1)


def test_a_classifier_that_is_always_sure_is_an_error_that_says_so(parts):
    training = plain_training(replace(QUICK, generated=3))
    with pytest.raises(TrainingError, match="exceeds 90% for all but 0 of 64 interpolated images"):
        unsure_images(parts[AUTOENCODING_GAN.name], Sure(), training)


def test_the_score_is_that_of_one_image_after_another(trained):
    task = digits(5)
    table = compute_logits(trained.net, task.val.images, (task.mean, task.std), CPU)
    train = compute_logits(trained.net, task.train.images, (task.mean, task.std), CPU)
    logits, targets = train.known.astype(np.float64), np.asarray(task.train.targets)
    fitted = tails.fit_tails(logits, targets, logits.argmax(axis=1) == targets, tails.euclidean)
    for known, score in zip(table.known.astype(np.float64), table.dummies[:, 0], strict=True):
        total = 0.0
        for k in range(5):
            distance = math.dist(known, fitted.means[k])
            beyond = max(distance - fitted.starts[k] + 1, 0.0)
            w = 1 - math.exp(-((beyond / fitted.scales[k]) ** fitted.shapes[k]))
            total += math.exp(known[k] * (1 - w))
        assert score == pytest.approx(-math.log(total), rel=1e-4, abs=1e-5)
