"""G-OpenMax: the images of its further class, and OpenMax over K+1 classes against the project's own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from own_trainings import CPU, digits, plain_training, train_on_digits
from torch import nn

from proser_core.errors import TrainingError
from proser_core.generative.conditional_gan import CONDITIONAL_GAN, ConditionalGan
from proser_core.generative.g_openmax import (
    G_OPENMAX,
    QUICK,
    _train_classifier,
    ambiguous_images,
    draw_mixtures,
    minus_log_best_known,
    revised,
)
from proser_core.generative.one_vs_rest import ONE_VS_REST
from proser_core.generative.own_network import TaskShape
from proser_core.generative.tail_scores import TailScores, euclidean, eucos
from proser_core.learning import tails
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.scores import FinishedScore, OpenMax

SMALL = {"width": 16, "epochs": 2, "least_steps": 30, "dropout": 0.0}
DRAWN = np.random.default_rng(0)
TARGETS = np.arange(120) % 4
LOGITS = DRAWN.normal(0, 1, (120, 4)) + 6 * np.eye(4)[TARGETS]


@pytest.fixture(scope="module")
def parts():
    gan = train_on_digits(CONDITIONAL_GAN, width=16, epochs=1, least_steps=80)
    classifier = train_on_digits(ONE_VS_REST, width=16, epochs=1, least_steps=40, dropout=0.0)
    return {CONDITIONAL_GAN.name: gan.net, ONE_VS_REST.name: classifier.net}


@pytest.fixture(scope="module")
def trained(parts):
    return train_on_digits(G_OPENMAX, parts, **SMALL)


@pytest.mark.parametrize("name", ["eucos", "euclidean"])
def test_tail_scores_in_torch_are_those_in_numpy(name):
    distance = getattr(tails, name)
    fitted = tails.fit_tails(LOGITS, TARGETS, LOGITS.argmax(axis=1) == TARGETS, distance)
    net = TailScores(4, 4, {"eucos": eucos, "euclidean": euclidean}[name])
    net.fill(fitted)
    expected = tails.w_scores(distance(LOGITS, fitted.means), fitted.shapes, fitted.scales, fitted.starts)
    np.testing.assert_allclose(net(torch.from_numpy(LOGITS)).numpy(), expected, rtol=1e-9, atol=1e-12)


def test_activations_of_zero_have_a_finite_score():
    assert torch.isfinite(TailScores(3, 3, eucos)(torch.zeros(2, 3))).all()


def test_openmax_over_all_classes_is_that_of_a_table_in_which_generated_images_are_a_class():
    table = LogitTable(LOGITS.astype(np.float32), np.zeros((120, 0), np.float32))
    open_max = OpenMax.fit(table, TARGETS)
    net = TailScores(4, 4, eucos)
    net.fill(tails.Tails(open_max.means, open_max.shapes, open_max.scales, open_max.starts, ()))
    logits = torch.from_numpy(table.known).double()
    by_rank = revised(logits, net(logits))
    expected, _ = open_max.revise(table)
    np.testing.assert_allclose(by_rank.numpy(), expected, rtol=1e-6, atol=1e-9)
    for row, score in zip(expected, minus_log_best_known(by_rank).tolist(), strict=True):
        probabilities = np.exp(row) / np.exp(row).sum()
        assert score == pytest.approx(-np.log(probabilities[:-1].max()), rel=1e-5, abs=1e-12)


def test_a_probability_that_rounds_to_1_still_has_a_score():
    scores = minus_log_best_known(torch.tensor([[50.0, 0.0, 0.0], [60.0, 0.0, 0.0]], dtype=torch.float64))
    assert scores[0] > scores[1] > 0


@pytest.mark.parametrize("num_known", [2, 5])
def test_mixtures_are_keyed_points_of_the_simplex(num_known):
    mixtures, noise = draw_mixtures(num_known, 7, seed=0, turn=1)
    torch.testing.assert_close(mixtures.sum(dim=1), torch.ones(64))
    assert (mixtures >= 0).all()
    assert noise.shape == (64, 7)
    assert torch.equal(mixtures, draw_mixtures(num_known, 7, seed=0, turn=1)[0])
    assert not torch.equal(mixtures, draw_mixtures(num_known, 7, seed=0, turn=2)[0])


@pytest.mark.slow
def test_every_image_that_is_kept_is_named_otherwise_than_by_its_largest_share(parts):
    gan, classifier = parts.values()
    made, rate = ambiguous_images(gan, classifier, 20, 0, CPU)
    kept, drawn = [], 0
    while len(kept) < 20:
        mixtures, noise = draw_mixtures(2, gan.noise, 0, drawn // 64)
        pixels = gan(noise, mixtures)
        named = classifier(pixels).argmax(dim=1)
        kept += [image for image, name, shares in zip(pixels, named, mixtures, strict=True) if name != shares.argmax()]
        drawn += 64
    torch.testing.assert_close(made, torch.stack(kept[:20]))
    assert rate == pytest.approx(len(kept) / drawn)


class ByShare(nn.Module):
    """Names an image that is filled with a mixture's first share as that mixture would be."""

    def forward(self, pixels):
        return torch.stack([pixels[:, 0, 0, 0], 1 - pixels[:, 0, 0, 0]], dim=1)


class Filled(ConditionalGan):
    """Draws images that are filled with the first share."""

    def forward(self, noise, classes):
        return classes[:, :1, None, None].expand(-1, 3, 8, 8)


def test_mixtures_that_are_all_named_rightly_are_an_error_that_says_so():
    with pytest.raises(TrainingError, match="0 of 128 images"):
        ambiguous_images(Filled(TaskShape(2, 8), CONDITIONAL_GAN.schedules["quick"]), ByShare(), 6, 0, CPU)


class Counting(nn.Module):
    """A linear classifier that notes how many images of a batch are training images, and how many white ones."""

    def __init__(self, outputs):
        super().__init__()
        self.linear, self.counts = nn.Linear(3 * 8 * 8, outputs), []

    def forward(self, pixels):
        is_white = (pixels == 1).all(dim=(1, 2, 3))
        self.counts.append((int((~is_white).sum()), int(is_white.sum())))
        return self.linear(pixels.flatten(1))


def test_a_batch_has_one_generated_image_for_as_many_real_ones_as_there_are_classes():
    schedule = replace(QUICK, epochs=1, least_steps=2, most_steps=2)
    net = Counting(4)
    _train_classifier(net, torch.ones(5, 3, 8, 8), plain_training(schedule, digits(num_known=3)))
    assert net.counts == [(64, 22)] * 2


def test_the_known_logits_are_raw_and_the_dummy_is_the_finished_score(trained):
    task = digits()
    table = compute_logits(trained.net, task.val.images, (task.mean, task.std), CPU)
    assert table.known.shape == (len(task.val), 2)
    assert table.dummies.shape == (len(task.val), 1)
    assert np.array_equal(FinishedScore()(table), table.dummies[:, 0])
    assert (table.known_predictions() == task.val.targets).mean() > 0.9


def test_tails_are_fitted_to_training_images_and_to_the_generated_ones(trained):
    net = trained.net
    assert net.tails.means.shape == (3, 3)
    assert net.tails.means.argmax(dim=1).tolist() == [0, 1, 2]
    assert trained.trained.facts["generated"] == -(-len(digits().train) // 2)


def test_unknown_digits_score_above_known_ones(trained):
    task = digits()
    known, unknown = (
        compute_logits(trained.net, part.images, (task.mean, task.std), CPU).dummies[:, 0]
        for part in (task.val, task.development)
    )
    assert (known[:, None] < unknown).mean() > 0.6
