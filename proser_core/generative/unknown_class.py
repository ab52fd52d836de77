"""A classifier whose further class, of logit 0, holds generated images (Neal et al. 2018, the K+1 classifier)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.generative.convolutions import WIDTH, Classifier32
from proser_core.generative.counterfactuals import are_open, unknown_losses, with_zero
from proser_core.generative.loop import BETAS, accuracy, run_epochs, take_step
from proser_core.generative.one_vs_rest import ClassifierSchedule
from proser_core.generative.own_network import OwnTraining, TaskShape
from proser_core.generative.pixels import PixelBatches, Pixels
from proser_core.networks.nets import ClassLogits
from proser_core.rng import keyed_generator


@dataclass(frozen=True, kw_only=True)
class UnknownClassSchedule(ClassifierSchedule):
    """Schedule of the K+1 classifier, and of the images of its further class."""

    generated: int
    """Images of the further class. Source: that of the instance."""
    least_share: float
    """Share of them that must be of no known class, or the training fails. Decided here."""


FULL = UnknownClassSchedule(epochs=3, batch_size=64, width=WIDTH, lr=1e-5, generated=3200, least_share=0.05)
"""The schedule of the authors' script of 2019."""
QUICK = replace(FULL, width=WIDTH // 4, lr=1e-3, least_steps=50, most_steps=100, generated=512)
"""For two cores."""


class UnknownClassNet(nn.Module):
    """Images [B, 3, S, S], normalised as the task's, to K known logits beside which unknown has logit 0."""

    def __init__(self, shape: TaskShape, schedule: ClassifierSchedule) -> None:
        super().__init__()
        self.pixels = Pixels(shape.image_size)
        self.classifier = Classifier32(shape.num_known, self.pixels.side, schedule.width, schedule.dropout)

    def forward(self, images: Tensor) -> ClassLogits:
        known = self.classifier(self.pixels(images))
        return ClassLogits(known, torch.zeros_like(known[:, :1]))


def unknown_class_loss(real: Tensor, targets: Tensor, made: Tensor) -> Tensor:
    """`mean -log p(target | real) + mean -log p(K+1 | made)` from logits [B, K], to which a 0 is added."""
    return F.cross_entropy(with_zero(real), targets) + unknown_losses(made).mean()


def train_with_unknown(net: nn.Module, made: Tensor, training: OwnTraining[UnknownClassSchedule], purpose: str) -> None:
    """Train a classifier of pixels on the training images, and on as many of `made` [N, 3, side, side] in each batch.

    Both go through it together, as one batch, so that BatchNorm's running statistics are of what it sees.
    """
    batches = PixelBatches(training, purpose)
    optimizer = torch.optim.Adam(net.parameters(), training.schedule.lr, BETAS)

    def steps(epoch: int) -> Iterator[Mapping[str, Tensor]]:
        for step, (pixels, targets) in enumerate(batches.epoch(epoch)):
            rows = keyed_generator(training.seed, f"{purpose} made", epoch, step).integers(len(made), size=len(pixels))
            seen = made[torch.from_numpy(rows).to(made.device)]
            real_logits, made_logits = net(torch.cat([pixels, seen])).split(len(pixels))
            loss = unknown_class_loss(real_logits, targets, made_logits)
            take_step(loss, optimizer)
            yield {
                "loss/unknown_class": loss,
                "train/accuracy": accuracy(with_zero(real_logits), targets),
                "train/made_unknown": are_open(made_logits).float().mean(),
            }

    run_epochs({"net": net, "optimizer": optimizer}, training, steps)
