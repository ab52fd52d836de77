"""An auto-encoder of the known classes: GFROSR shows its classifier an image and what this network makes of it.

Perera et al. 2020 say no more of theirs than that it reconstructs. This one is decided here: the encoder and decoder of
Neal et al. 2018 without dropout and without sphere, whose code has a third of the numbers of the image.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from proser_core.config import OptimizerConfig
from proser_core.data.augmentation.batches import BatchSlice
from proser_core.generative.convolutions import Decoder32, Encoder32
from proser_core.generative.loop import descend
from proser_core.generative.own_network import OwnNetwork, OwnTraining, Picture, TaskShape, Trained
from proser_core.generative.pixels import Pixels, picture, shown
from proser_core.generative.subsets import SubsetSchedule, at_most

CODES = 64
"""Channels of a code, which has an eighth of the rows and columns of an image."""


@dataclass(frozen=True, kw_only=True)
class AutoEncoderSchedule(SubsetSchedule):
    """How the auto-encoder is trained: Adam, down a cosine."""

    width: int
    """Channels of the encoder from its third convolution on; the decoder begins with four times as many."""
    lr: float = 1e-3
    """Peak learning rate. Decided here."""


FULL = AutoEncoderSchedule(epochs=100, batch_size=128, width=128)
QUICK = AutoEncoderSchedule(epochs=10, batch_size=32, width=32, lr=3e-3, per_class=1000)


class Reconstruction(NamedTuple):
    """Images [B, 3, s, s] in [0, 1], and what the network makes of them."""

    pixels: Tensor
    reconstructed: Tensor

    def errors(self) -> Tensor:
        """Mean squared difference of each image, float32[B]."""
        return (self.pixels - self.reconstructed.float()).square().mean(dim=(1, 2, 3))


class AutoEncoder(nn.Module):
    """Normalised images [B, 3, S, S] to their reconstruction."""

    def __init__(self, shape: TaskShape, width: int) -> None:
        super().__init__()
        self.pixels = Pixels(shape.image_size)
        self.encoder = Encoder32(CODES, width)
        self.decoder = Decoder32(CODES, (4 * width, 2 * width, width))

    def forward(self, images: Tensor) -> Reconstruction:
        pixels = self.pixels(images)
        return Reconstruction(pixels, self.decoder(self.encoder(pixels)))


def train_autoencoder(net: AutoEncoder, training: OwnTraining[AutoEncoderSchedule]) -> Trained:
    """On the images as the classifier will show them: cropped and mirrored as the recipe says."""
    task, schedule = training.task, training.schedule
    net.pixels.fill(task)
    images = at_most(task.train, schedule.per_class)
    optimizer = torch.optim.Adam(net.parameters(), lr=schedule.lr)
    rates = OptimizerConfig(epochs=schedule.epochs, lr=schedule.lr, schedule="cosine")

    def loss_of(batch: BatchSlice, epoch: int, step: int) -> Mapping[str, Tensor]:
        return {"loss/total": net(batch.images).errors().mean()}

    batches = training.batches("autoencoder", images)
    descend(net, optimizer, loss_of, batches, rates, training)
    return Trained(pictures=_pictures(net.eval(), training))


@torch.no_grad()
def _pictures(net: AutoEncoder, training: OwnTraining[AutoEncoderSchedule]) -> dict[str, Picture]:
    """Images above their reconstructions: of known classes that were not trained on, and of development unknowns."""
    task = training.task
    parts = {"validation images": task.val, "development unknowns": task.development}
    named = {title: shown(task, labelled, training.device)[0] for title, labelled in parts.items() if len(labelled)}
    return {f"{title} and their reconstructions": picture(*net(images)) for title, images in named.items()}


AUTOENCODER = OwnNetwork(
    name="auto-encoder",
    schedules={"full": FULL, "quick": QUICK},
    make=lambda shape, schedule: AutoEncoder(shape, schedule.width),
    train=train_autoencoder,
    scores_images=False,
)
