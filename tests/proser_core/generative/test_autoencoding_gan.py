"""The GAN with an encoder: its losses against slow twins, and its training on two digits."""

import math

import pytest
import torch
from own_trainings import CPU, plain_training, train_on_digits

from proser_core.generative.autoencoding_gan import (
    AUTOENCODING_GAN,
    FULL,
    QUICK,
    AutoencodingGan,
    discriminator_loss,
    draw,
    gradient_penalty,
    play,
)
from proser_core.generative.own_network import TaskShape
from proser_core.generative.pixels import PixelBatches


def curved(images):
    """A discriminator without neighbours: float[B, 3, H, W] to float[B]."""
    return (images.square().flatten(1) * torch.linspace(-1, 2, images[0].numel())).sum(dim=1)


def test_the_penalty_is_that_of_one_image_after_another():
    torch.manual_seed(0)
    real, made, shares = torch.rand(3, 3, 4, 4), torch.rand(3, 3, 4, 4), torch.rand(3, 1, 1, 1)
    squares = []
    for image in range(3):
        share = float(shares[image])
        between = (share * real[image] + (1 - share) * made[image])[None].requires_grad_()
        (gradient,) = torch.autograd.grad(curved(between)[0], between)
        squares.append((math.sqrt(sum(float(value) ** 2 for value in gradient.flatten())) - 1) ** 2)
    penalty = gradient_penalty(curved, real, made, shares)
    assert float(penalty.detach()) == pytest.approx(sum(squares) / 3, rel=1e-4)


def test_the_penalty_of_a_gradient_of_length_1_is_0_and_one_of_no_gradient_has_a_slope():
    images = torch.rand(2, 3, 4, 4)
    penalty = gradient_penalty(lambda x: x[:, 0, 0, 0], images, images, torch.rand(2, 1, 1, 1))
    assert float(penalty.detach()) < 1e-10
    weight = torch.zeros((), requires_grad=True)
    gradient_penalty(lambda x: weight * x.flatten(1).sum(1), images, images, torch.rand(2, 1, 1, 1)).backward()
    assert torch.isfinite(weight.grad)


def test_the_discriminator_loss_is_that_of_one_output_after_another():
    made, real = [0.5, -2.0, 3.0], [1.0, -0.5]

    def softplus(value):
        return math.log(1 + math.exp(value))

    expected = sum(map(softplus, made)) / 3 + 0.01 * sum(softplus(-value) for value in real) / 2
    assert float(discriminator_loss(torch.tensor(made), torch.tensor(real))) == pytest.approx(expected)


def test_noise_lies_on_the_sphere_and_is_keyed():
    drawn = draw(0, 1, 2, (6, 2, 2), 5, CPU)
    pieces = drawn.noise.reshape(5, 4, 6).norm(dim=2)
    torch.testing.assert_close(pieces, torch.ones(5, 4))
    assert torch.equal(drawn.noise, draw(0, 1, 2, (6, 2, 2), 5, CPU).noise)
    assert not torch.equal(drawn.noise, draw(0, 1, 3, (6, 2, 2), 5, CPU).noise)


def test_each_player_moves_its_own_weights_alone():
    torch.manual_seed(0)
    net = AutoencodingGan(TaskShape(2, 8), QUICK)
    moved = []

    class Still(torch.optim.SGD):
        """Notes whose turn it is, and which weights have a gradient."""

        def step(self, closure=None):
            moved.append(self.name)
            assert all(weight.grad is not None for group in self.param_groups for weight in group["params"])

    optimizers = {}
    for name, part in net.named_children():
        optimizers[name] = Still(part.parameters(), 0.1)
        optimizers[name].name = name
    play(net, optimizers, torch.rand(4, 3, 8, 8), draw(0, 0, 0, net.code_shape, 4, CPU))
    assert moved == ["discriminator", "generator", "encoder", "generator"]


def test_full_is_as_the_authors_have_it():
    assert (FULL.epochs, FULL.batch_size, FULL.lr, FULL.codes, FULL.width, FULL.most_steps) == (
        30,
        64,
        1e-4,
        64,
        128,
        0,
    )
    assert AutoencodingGan(TaskShape(6, 64), FULL).code_shape == (64, 4, 4)


@pytest.mark.slow
def test_images_come_back_closer_than_the_mean_image_of_their_class():
    trained = train_on_digits(AUTOENCODING_GAN, width=16, codes=16, epochs=1, least_steps=120, lr=4e-3)
    pixels, targets = PixelBatches(plain_training(QUICK), "any").first(500)
    means = torch.stack([pixels[targets == label].mean(dim=0) for label in range(2)])
    by_mean = float((pixels - means[targets]).abs().mean())
    assert trained.trained.facts["reconstruction_error"] < 0.8 * by_mean
    assert float((pixels - trained.net(pixels)).abs().mean()) < 0.8 * by_mean


def test_the_picture_has_images_above_their_reconstructions():
    trained = train_on_digits(AUTOENCODING_GAN, width=8, codes=8, epochs=1, least_steps=2, most_steps=2)
    (picture,) = trained.trained.pictures.values()
    assert picture.shape == (2, 8, 8, 8, 3)
    assert picture.dtype == "uint8"
    pixels, _ = PixelBatches(plain_training(QUICK), AUTOENCODING_GAN.name).first(8)
    assert abs(picture[0].astype(float) / 255 - pixels.permute(0, 2, 3, 1).numpy()).max() < 0.01
