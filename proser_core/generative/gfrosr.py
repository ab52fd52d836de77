"""GFROSR: a classifier that sees an image beside its reconstruction, and learns to tell how images were turned
(Perera et al. 2020).

The authors' code is not available. Auto-encoder, weight of the turns and the schedules are decided here
(docs/method-notes.md). Three controls leave out the reconstruction, the turns, or both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.config import OptimizerConfig
from proser_core.data.augmentation.batches import BatchSlice
from proser_core.data.normalisation import evaluation_batches
from proser_core.data.tasks import OpenSetTask
from proser_core.generative.autoencoder import AUTOENCODER, AutoEncoder
from proser_core.generative.autoencoder import FULL as FULL_AUTOENCODER
from proser_core.generative.autoencoder import QUICK as QUICK_AUTOENCODER
from proser_core.generative.convolutions import nine_blocks
from proser_core.generative.loop import accuracy, descend
from proser_core.generative.own_network import OwnNetwork, OwnTraining, TaskShape, Trained
from proser_core.generative.pixels import scaled
from proser_core.generative.subsets import SubsetSchedule, at_most
from proser_core.learning.objectives import frozen_running_statistics
from proser_core.networks.backbone import average_pool
from proser_core.networks.nets import ClassLogits
from proser_core.rng import keyed_generator

TURNS = 4
"""Quarters of a full turn."""


@dataclass(frozen=True, kw_only=True)
class GfrosrSchedule(SubsetSchedule):
    """How the classifier is trained: SGD with momentum 0.9, up and down one cycle."""

    width: int = 128
    """Channels from the third convolution on; 128 is classifier32."""
    lr: float = 0.1
    """Peak learning rate. Source: that of the project's pretraining."""
    weight_decay: float = 5e-4
    """L2 penalty. Source: that of the project's pretraining."""
    reconstruction: bool = True
    """Whether the classifier sees three further channels, the reconstruction."""
    rotation_weight: float = 1.0
    """Weight of the loss of the turns; 0 leaves them out, and their head. Decided here."""
    autoencoder_width: int = FULL_AUTOENCODER.width
    """That of the auto-encoder's schedule."""


FULL = GfrosrSchedule(epochs=200, batch_size=128)
QUICK = GfrosrSchedule(
    epochs=10, batch_size=32, width=64, lr=0.05, autoencoder_width=QUICK_AUTOENCODER.width, per_class=1000
)


class GfrosrNet(nn.Module):
    """Images [B, 3, S, S] to logits of the known classes and, as the one dummy, the error of reconstruction [B, 1].

    Without the reconstruction there is no dummy. The auto-encoder is never trained here.
    """

    def __init__(self, shape: TaskShape, schedule: GfrosrSchedule) -> None:
        super().__init__()
        channels, width = (6 if schedule.reconstruction else 3), schedule.width
        self.autoencoder: AutoEncoder | None = None
        if schedule.reconstruction:
            self.autoencoder = AutoEncoder(shape, schedule.autoencoder_width).requires_grad_(False)
        self.features = nn.Sequential(nine_blocks(width, channels_in=channels), average_pool())
        self.classifier = nn.Linear(width, shape.num_known)
        self.turns = nn.Linear(width, TURNS) if schedule.rotation_weight else None

    def train(self, mode: bool = True) -> "GfrosrNet":
        """Switches the mode as any module does, but the auto-encoder stays in evaluation mode."""
        super().train(mode)
        if self.autoencoder is not None:
            self.autoencoder.eval()
        return self

    def stacked(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """What the classifier sees, [B, 6, S, S] normalised alike, and the errors [B, 1]; the images alone, and [B, 0],
        without the reconstruction."""
        if self.autoencoder is None:
            return images, images.new_empty(images.shape[0], 0)
        found, pixels = self.autoencoder(images), self.autoencoder.pixels
        again = (scaled(found.reconstructed, images.shape[-1]) - pixels.mean) / pixels.std
        return torch.cat([images, again.to(images.dtype)], dim=1), found.errors()[:, None]

    def forward(self, images: Tensor) -> ClassLogits:
        seen, errors = self.stacked(images)
        return ClassLogits(self.classifier(self.features(seen)), errors)


def turned(images: Tensor, quarters: Tensor) -> Tensor:
    """Square images [B, C, S, S], each turned counter-clockwise by its number of quarters, int64[B] in 0..3."""
    every = torch.stack([torch.rot90(images, number, dims=(2, 3)) for number in range(TURNS)])
    return every[quarters, torch.arange(len(images), device=images.device)]


def losses(net: GfrosrNet, batch: BatchSlice, quarters: Tensor, rotation_weight: float) -> dict[str, Tensor]:
    """`CE(class) + rotation_weight * CE(quarters)`, the classes of upright images, the quarters of turned ones.

    A reconstruction is turned with its image: the auto-encoder has never seen one that was turned. The running
    statistics of BatchNorm are those of upright images, which alone are classified later.
    """
    with torch.no_grad():
        seen, _ = net.stacked(batch.images)
    logits = net.classifier(net.features(seen)).float()
    by_class = F.cross_entropy(logits, batch.targets)
    measured = {"loss/total": by_class, "loss/closed_set": by_class, "train/accuracy": accuracy(logits, batch.targets)}
    if net.turns is not None:
        with frozen_running_statistics(net.features):
            turns = net.turns(net.features(turned(seen, quarters))).float()
        by_turn = F.cross_entropy(turns, quarters)
        measured |= {"loss/total": by_class + rotation_weight * by_turn, "loss/turns": by_turn}
        measured["train/turn_accuracy"] = accuracy(turns, quarters)
    return measured


def draw_quarters(seed: int, epoch: int, step: int, count: int) -> np.ndarray:
    """int64[count] in 0..3, keyed by (seed, epoch, step)."""
    return keyed_generator(seed, "turns", epoch, step).integers(0, TURNS, count)


def train_gfrosr(net: GfrosrNet, training: OwnTraining[GfrosrSchedule]) -> Trained:
    """The classifier on the recipe's augmented images, the auto-encoder as it was handed over."""
    schedule = training.schedule
    if net.autoencoder is not None:
        net.autoencoder.load_state_dict(training.parts[AUTOENCODER.name].state_dict())
    batches = training.batches("gfrosr", at_most(training.task.train, schedule.per_class))
    optimizer = torch.optim.SGD(
        [weight for weight in net.parameters() if weight.requires_grad],
        lr=schedule.lr,
        momentum=0.9,
        weight_decay=schedule.weight_decay,
    )
    rates = OptimizerConfig(epochs=schedule.epochs, lr=schedule.lr, schedule="one_cycle")

    def loss_of(batch: BatchSlice, epoch: int, step: int) -> Mapping[str, Tensor]:
        quarters = draw_quarters(training.seed, epoch, step, len(batch.targets))
        return losses(net, batch, torch.from_numpy(quarters).to(training.device), schedule.rotation_weight)

    descend(net, optimizer, loss_of, batches, rates, training)
    return Trained(facts={} if net.turns is None else {"turn_accuracy": turn_accuracy(net, training.task)})


@torch.no_grad()
def turn_accuracy(net: GfrosrNet, task: OpenSetTask) -> float:
    """Share of the validation images, each turned by 0 to 3 quarters, whose quarters are named."""
    assert net.turns is not None, "a network without the loss of turns has no head for them"
    net.eval()
    device, right = net.turns.weight.device, []
    for images in evaluation_batches(task.val.images, (task.mean, task.std), device):
        seen, _ = net.stacked(images)
        for number in range(TURNS):
            quarters = torch.full((len(seen),), number, device=device)
            right.append((net.turns(net.features(turned(seen, quarters))).argmax(dim=1) == quarters).cpu())
    return float(torch.cat(right).float().mean())


def _network(name: str, *, reconstruction: bool, rotation_weight: float) -> OwnNetwork[GfrosrSchedule]:
    full, quick = (
        replace(schedule, reconstruction=reconstruction, rotation_weight=rotation_weight) for schedule in (FULL, QUICK)
    )
    return OwnNetwork(
        name=name,
        schedules={"full": full, "quick": quick},
        make=GfrosrNet,
        train=train_gfrosr,
        needs=(AUTOENCODER.name,) if reconstruction else (),
    )


GFROSR = _network("GFROSR", reconstruction=True, rotation_weight=1.0)
SIX_CHANNELS = _network("GFROSR (six channels alone)", reconstruction=True, rotation_weight=0.0)
ROTATION = _network("GFROSR (rotation alone)", reconstruction=False, rotation_weight=1.0)
THREE_CHANNELS = _network("GFROSR (three channels)", reconstruction=False, rotation_weight=0.0)
