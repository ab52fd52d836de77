"""A conditional GAN (DCGAN with class planes) that draws images of mixtures of known classes: a part of G-OpenMax.

The paper's own networks are not known; these are of a port, with a discriminator that mirrors the generator
(docs/method-notes.md).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.generative.loop import BETAS, run_epochs, take_step
from proser_core.generative.own_network import OwnNetwork, OwnTraining, TaskShape, Trained
from proser_core.generative.pixels import PixelBatches, PixelSchedule, generated_side, picture
from proser_core.rng import keyed_generator

NAME = "conditional GAN"
SHOWN = 8  # columns of the picture


@dataclass(frozen=True, kw_only=True)
class ConditionalGanSchedule(PixelSchedule):
    """Schedule of the conditional GAN; its `width` is the channels after the first stage of the discriminator."""

    noise: int = 100
    """Entries of z. Source: a port of G-OpenMax."""


FULL = ConditionalGanSchedule(epochs=50, batch_size=64, width=128, lr=2e-4)
"""Rate and batch of a port; epochs of the method notes."""
QUICK = ConditionalGanSchedule(epochs=10, batch_size=32, width=32, lr=1e-3, least_steps=100, most_steps=200)
"""For two cores."""


class ConditionalGan(nn.Module):
    """Generator and discriminator of images in [-1, 1]; outside, pixels are in [0, 1]."""

    def __init__(self, shape: TaskShape, schedule: ConditionalGanSchedule) -> None:
        super().__init__()
        self.noise, self.num_known = schedule.noise, shape.num_known
        self.side = generated_side(shape.image_size)
        self.generator = Generator(schedule.noise, shape.num_known, schedule.width, self.side)
        self.discriminator = Discriminator(shape.num_known, schedule.width, self.side)

    def forward(self, noise: Tensor, classes: Tensor) -> Tensor:
        """Pixels [B, 3, side, side] in [0, 1] of noise [B, noise] and points of the simplex [B, K]."""
        return (self.generator(noise, classes) + 1) / 2


class Generator(nn.Module):
    """Noise [B, n] and classes [B, K] to images [B, 3, side, side] in [-1, 1]: both to side / 8 rows, then doubled
    three times."""

    def __init__(self, noise: int, num_known: int, width: int, side: int) -> None:
        super().__init__()
        self.from_noise = _normed_up(noise, 2 * width, side // 8, stride=1, padding=0)
        self.from_classes = _normed_up(num_known, 2 * width, side // 8, stride=1, padding=0)
        self.up = nn.Sequential(
            *_normed_up(4 * width, 2 * width),
            *_normed_up(2 * width, width),
            _normal(nn.ConvTranspose2d(width, 3, 4, 2, 1)),
            nn.Tanh(),
        )

    def forward(self, noise: Tensor, classes: Tensor) -> Tensor:
        both = [self.from_noise(noise[:, :, None, None]), self.from_classes(classes[:, :, None, None])]
        return self.up(torch.cat(both, dim=1))


class Discriminator(nn.Module):
    """Images [B, 3, side, side] in [-1, 1] and classes [B, K] to logits [B] of being real."""

    def __init__(self, num_known: int, width: int, side: int) -> None:
        super().__init__()
        self.from_image = _normal(nn.Conv2d(3, width // 2, 4, 2, 1))
        self.from_classes = _normal(nn.Conv2d(num_known, width // 2, 4, 2, 1))
        self.down = nn.Sequential(
            nn.LeakyReLU(0.2),
            *_normed_down(width, 2 * width),
            *_normed_down(2 * width, 4 * width),
            _normal(nn.Conv2d(4 * width, 1, side // 8)),
        )

    def forward(self, images: Tensor, classes: Tensor) -> Tensor:
        planes = classes[:, :, None, None].expand(-1, -1, *images.shape[2:])
        return self.down(torch.cat([self.from_image(images), self.from_classes(planes)], dim=1)).flatten()


def train(net: ConditionalGan, training: OwnTraining[ConditionalGanSchedule]) -> Trained:
    """`min_G max_D E log D(x, c) + E log(1 - D(G(z, c), c))`, the generator by `-log D`, c being the true classes."""
    batches = PixelBatches(training, NAME)
    optimizers = {
        name: torch.optim.Adam(part.parameters(), training.schedule.lr, BETAS) for name, part in net.named_children()
    }

    def steps(epoch: int) -> Iterator[Mapping[str, Tensor]]:
        for step, batch in enumerate(batches.epoch(epoch)):
            noise = draw_noise(training.seed, f"{NAME} noise", len(batch.targets), net.noise, epoch, step)
            classes = F.one_hot(batch.targets, net.num_known).float()
            yield play(net, optimizers, 2 * batch.pixels - 1, classes, noise.to(training.device))

    run_epochs({"net": net, **optimizers}, training, steps)
    return Trained(pictures={"generated images, a row for each known class": _pictured(net.eval(), training)})


def play(
    net: ConditionalGan, optimizers: Mapping[str, torch.optim.Optimizer], images: Tensor, classes: Tensor, noise: Tensor
) -> dict[str, Tensor]:
    """One batch, images in [-1, 1]: the discriminator, then the generator."""
    made = net.generator(noise, classes)
    real = net.discriminator(images, classes)
    against = F.softplus(-real).mean() + F.softplus(net.discriminator(made.detach(), classes)).mean()
    take_step(against, optimizers["discriminator"])
    fooled = F.softplus(-net.discriminator(made, classes)).mean()
    take_step(fooled, optimizers["generator"])
    return {"loss/discriminator": against, "loss/generator": fooled}


def draw_noise(seed: int, purpose: str, count: int, entries: int, *indices: int) -> Tensor:
    """Normal noise float32[count, entries], on the host."""
    drawn = keyed_generator(seed, purpose, *indices).standard_normal((count, entries), np.float32)
    return torch.from_numpy(drawn)


def _normed_up(channels_in: int, channels: int, kernel: int = 4, stride: int = 2, padding: int = 1) -> nn.Sequential:
    convolution = nn.ConvTranspose2d(channels_in, channels, kernel, stride, padding, bias=False)
    return nn.Sequential(_normal(convolution), _norm(channels), nn.ReLU())


def _normed_down(channels_in: int, channels: int) -> nn.Sequential:
    convolution = nn.Conv2d(channels_in, channels, 4, 2, 1, bias=False)
    return nn.Sequential(_normal(convolution), _norm(channels), nn.LeakyReLU(0.2))


def _norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels)
    nn.init.normal_(norm.weight, 1.0, 0.02)
    return norm


def _normal(convolution: nn.Module) -> nn.Module:
    nn.init.normal_(convolution.weight, 0.0, 0.02)  # type: ignore[arg-type]
    return convolution


@torch.no_grad()
def _pictured(net: ConditionalGan, training: OwnTraining[ConditionalGanSchedule]) -> np.ndarray:
    noise = draw_noise(training.seed, f"{NAME} picture", SHOWN, net.noise).to(training.device)
    every = torch.eye(net.num_known, device=training.device)
    return picture(*(net(noise, one.expand(SHOWN, -1)) for one in every))


CONDITIONAL_GAN = OwnNetwork(
    name=NAME, schedules={"full": FULL, "quick": QUICK}, make=ConditionalGan, train=train, scores_images=False
)
