"""Encoder, generator and discriminator of Neal et al. 2018: images of known classes to codes on a sphere, and back.

A part that OSRCI and the interpolating form of G-OpenMax share. Steps as in the authors' code; departures are in
docs/method-notes.md.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.generative.convolutions import WIDTH, Decoder32, Discriminator32, Encoder32, code_side, sphere
from proser_core.generative.loop import BETAS, run_epochs, take_step
from proser_core.generative.own_network import OwnNetwork, OwnTraining, TaskShape, Trained
from proser_core.generative.pixels import PixelBatches, PixelSchedule, generated_side, picture
from proser_core.rng import keyed_generator

NAME = "autoencoding GAN"
REALISM = 0.01  # weight of real images in the discriminator, and of the discriminator in the generator
PENALTY = 10.0  # weight of the gradient penalty
SHOWN = 8  # columns of the picture
MEASURED = 256  # training images whose reconstruction error is reported


@dataclass(frozen=True, kw_only=True)
class GanSchedule(PixelSchedule):
    """Schedule of the GAN."""

    codes: int = 64
    """Channels L of a code, which has L / 64 entries for each pixel at 32 pixels. Source: authors' parameter file."""
    dropout: float = 0.2
    """Dropout of encoder and discriminator. Source: authors' code."""


FULL = GanSchedule(epochs=30, batch_size=64, width=WIDTH, lr=1e-4)
"""The schedule of the authors' code."""
QUICK = GanSchedule(epochs=8, batch_size=32, width=WIDTH // 4, lr=1e-3, least_steps=100, most_steps=100, dropout=0.0)
"""For two cores."""


class AutoencodingGan(nn.Module):
    """`encode` and `decode` are what other networks use; the discriminator serves training alone."""

    def __init__(self, shape: TaskShape, schedule: GanSchedule) -> None:
        super().__init__()
        self.side = generated_side(shape.image_size)
        width, codes = schedule.width, schedule.codes
        self.encoder = Encoder32(codes, width, schedule.dropout)
        self.generator = Decoder32(codes, (4 * width, 2 * width, width))
        self.discriminator = Discriminator32(self.side, width, schedule.dropout)
        self.code_shape = (codes, code_side(self.side), code_side(self.side))

    def encode(self, pixels: Tensor) -> Tensor:
        """Pixels [B, 3, side, side] to codes [B, L, s, s] on the sphere."""
        return sphere(self.encoder(pixels))

    def decode(self, codes: Tensor) -> Tensor:
        """Codes [B, L, s, s] to pixels in [0, 1]."""
        return self.generator(codes)

    def forward(self, pixels: Tensor) -> Tensor:
        """Reconstructions."""
        return self.decode(self.encode(pixels))


@dataclass(frozen=True)
class GanDraw:
    """What is drawn for a batch: noise float32[B, L, s, s] on the sphere; shares float32[B, 1, 1, 1] in [0, 1]."""

    noise: Tensor
    shares: Tensor


def draw(seed: int, epoch: int, step: int, code_shape: tuple[int, ...], count: int, device: torch.device) -> GanDraw:
    """Normal noise put on the sphere, and uniform shares, keyed by (seed, epoch, step)."""
    generator = keyed_generator(seed, f"{NAME} noise", epoch, step)
    noise = torch.from_numpy(generator.standard_normal((count, *code_shape), np.float32)).to(device)
    shares = torch.from_numpy(generator.random((count, 1, 1, 1), np.float32)).to(device)
    return GanDraw(sphere(noise), shares)


def discriminator_loss(made: Tensor, real: Tensor) -> Tensor:
    """`mean softplus(D(made)) + 0.01 mean softplus(-D(real))`, from D's outputs float[B]."""
    return F.softplus(made).mean() + REALISM * F.softplus(-real).mean()


def gradient_penalty(discriminator: Callable[[Tensor], Tensor], real: Tensor, made: Tensor, shares: Tensor) -> Tensor:
    """`mean (norm - 1)^2` of the discriminator's gradients between real and made images (Gulrajani et al. 2017).

    `shares` [B, 1, 1, 1] of real lie in each mixture. The norm is that of a whole image.
    """
    between = (shares * real + (1 - shares) * made).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(discriminator(between).sum(), between, create_graph=True)
    norms = (gradient.square().sum(dim=(1, 2, 3)) + 1e-12).sqrt()  # the root has no slope at 0
    return (norms - 1).square().mean()


def train(net: AutoencodingGan, training: OwnTraining[GanSchedule]) -> Trained:
    """Train discriminator, generator and encoder in turn, in fp32: the penalty has second derivatives."""
    batches = PixelBatches(training, NAME)
    optimizers = {
        name: torch.optim.Adam(part.parameters(), training.schedule.lr, BETAS) for name, part in net.named_children()
    }

    def steps(epoch: int) -> Iterator[Mapping[str, Tensor]]:
        for step, batch in enumerate(batches.epoch(epoch)):
            drawn = draw(training.seed, epoch, step, net.code_shape, len(batch.pixels), training.device)
            yield play(net, optimizers, batch.pixels, drawn)

    run_epochs({"net": net, **optimizers}, training, steps)
    return _result(net.eval(), batches.first(MEASURED).pixels)


def play(
    net: AutoencodingGan, optimizers: Mapping[str, torch.optim.Optimizer], pixels: Tensor, drawn: GanDraw
) -> dict[str, Tensor]:
    """One batch: D against samples, then G against D with reconstructions, then E and G towards the images."""
    with torch.no_grad():
        made = net.decode(drawn.noise)
    against = discriminator_loss(net.discriminator(made), net.discriminator(pixels))
    penalty = gradient_penalty(net.discriminator, pixels, made, drawn.shares)
    take_step(against + PENALTY * penalty, optimizers["discriminator"])
    take_step(-REALISM * net.discriminator(net(pixels)).mean(), optimizers["generator"])
    error = (pixels - net(pixels)).abs().mean()
    take_step(error, optimizers["encoder"], optimizers["generator"])
    return {"loss/discriminator": against, "loss/penalty": penalty, "loss/reconstruction": error}


@torch.no_grad()
def _result(net: AutoencodingGan, pixels: Tensor) -> Trained:
    again = net(pixels)
    error = float((pixels - again).abs().mean())
    rows = picture(pixels[:SHOWN], again[:SHOWN])
    return Trained({"reconstruction_error": error}, {"training images above their reconstructions": rows})


AUTOENCODING_GAN = OwnNetwork(
    name=NAME, schedules={"full": FULL, "quick": QUICK}, make=AutoencodingGan, train=train, scores_images=False
)
