"""The conditional GAN of G-OpenMax on two digits."""

import math

import pytest
import torch
import torch.nn.functional as F
from own_trainings import train_on_digits

from proser_core.generative.conditional_gan import CONDITIONAL_GAN, FULL, QUICK, ConditionalGan, draw_noise, play
from proser_core.generative.one_vs_rest import ONE_VS_REST
from proser_core.generative.own_network import TaskShape

LABELS = torch.arange(64) % 2


@pytest.fixture(scope="module")
def trained():
    return train_on_digits(CONDITIONAL_GAN, width=16, epochs=5, least_steps=100, lr=1e-3)


@pytest.mark.slow
def test_images_are_named_as_the_class_that_they_were_drawn_of(trained):
    classifier = train_on_digits(ONE_VS_REST, width=16, epochs=1, least_steps=60, dropout=0.0).net
    noise = draw_noise(0, "test", 64, QUICK.noise)
    named = classifier(trained.net(noise, F.one_hot(LABELS).float())).argmax(dim=1)
    assert float((named == LABELS).float().mean()) >= 0.9


@pytest.mark.slow
def test_images_differ_within_a_class_and_lie_in_the_unit_range(trained):
    pixels = trained.net(draw_noise(0, "test", 8, QUICK.noise), torch.tensor([[1.0, 0.0]]).expand(8, -1))
    assert 0 <= float(pixels.min()) <= float(pixels.max()) <= 1
    assert float(pixels.std(dim=0).mean()) > 0.02


@pytest.mark.slow
def test_the_picture_has_a_row_for_each_class(trained):
    (picture,) = trained.trained.pictures.values()
    assert picture.shape == (2, 8, 8, 8, 3)


@pytest.mark.parametrize("side", [8, 16, 32])
def test_shapes_at_every_side(side):
    net = ConditionalGan(TaskShape(3, side), QUICK)
    pixels = net(torch.randn(2, QUICK.noise), torch.eye(3)[:2])
    assert pixels.shape == (2, 3, side, side)
    assert net.discriminator(pixels, torch.eye(3)[:2]).shape == (2,)


def test_the_channels_of_full_are_those_of_the_port():
    net = ConditionalGan(TaskShape(6, 32), FULL)
    up = [tuple(value.shape[:2]) for value in net.generator.parameters() if value.dim() == 4]
    down = [tuple(value.shape[:2]) for value in net.discriminator.parameters() if value.dim() == 4]
    assert up == [(100, 256), (6, 256), (512, 256), (256, 128), (128, 3)]
    assert down == [(64, 3), (64, 6), (256, 128), (512, 256), (1, 512)]


def test_the_losses_are_those_of_one_image_after_another():
    torch.manual_seed(0)
    net = ConditionalGan(TaskShape(2, 8), QUICK)
    images, noise, classes = torch.rand(4, 3, 8, 8) * 2 - 1, torch.randn(4, QUICK.noise), F.one_hot(LABELS[:4]).float()
    with torch.no_grad():
        real, made = (net.discriminator(each, classes).tolist() for each in (images, net.generator(noise, classes)))
    still = {name: torch.optim.SGD(part.parameters(), 0.0) for name, part in net.named_children()}
    losses = play(net, still, images, classes, noise)

    def probability(logit):
        return 1 / (1 + math.exp(-logit))

    of_real = -sum(math.log(probability(logit)) for logit in real) / 4
    of_made = -sum(math.log(1 - probability(logit)) for logit in made) / 4
    fooled = -sum(math.log(probability(logit)) for logit in made) / 4
    assert float(losses["loss/discriminator"].detach()) == pytest.approx(of_real + of_made, rel=1e-4)
    assert float(losses["loss/generator"].detach()) == pytest.approx(fooled, rel=1e-4)
