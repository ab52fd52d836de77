"""A classifier of pixels in [0, 1], and the part that Neal et al. 2018 train one class against the rest.

Each logit says whether an image is of its class, so that 0 is where a class ends and the logit of a class without
weights: that of unknown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.generative.convolutions import WIDTH, Classifier32
from proser_core.generative.loop import BETAS, accuracy, run_epochs, take_step
from proser_core.generative.own_network import OwnNetwork, OwnTraining, TaskShape, Trained
from proser_core.generative.pixels import PixelBatches, PixelSchedule, generated_side

NAME = "one-vs-rest classifier"


@dataclass(frozen=True, kw_only=True)
class ClassifierSchedule(PixelSchedule):
    """Schedule of a classifier of pixels."""

    dropout: float = 0.2
    """Dropout of whole channels, before each stage. Source: authors' code."""


FULL = ClassifierSchedule(epochs=30, batch_size=64, width=WIDTH, lr=1e-4)
"""The schedule of the authors' code."""
QUICK = ClassifierSchedule(epochs=10, batch_size=64, width=WIDTH // 4, lr=1e-3, least_steps=50, most_steps=200)
"""For two cores."""


def make(shape: TaskShape, schedule: ClassifierSchedule) -> Classifier32:
    """Pixels [B, 3, side, side] to logits [B, K]."""
    return Classifier32(shape.num_known, generated_side(shape.image_size), schedule.width, schedule.dropout)


def one_vs_rest_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """`mean over B*K of softplus(-y_k l_k)`, y_k = 1 for the class of an image and -1 for the others."""
    signs = 2.0 * F.one_hot(targets, logits.shape[1]) - 1.0
    return F.softplus(-signs * logits).mean()


def train(net: nn.Module, training: OwnTraining[ClassifierSchedule]) -> Trained:
    """Train on pixels that are not augmented."""
    batches = PixelBatches(training, NAME)
    optimizer = torch.optim.Adam(net.parameters(), training.schedule.lr, BETAS)

    def steps(epoch: int) -> Iterator[Mapping[str, Tensor]]:
        for batch in batches.epoch(epoch):
            logits = net(batch.pixels)
            loss = one_vs_rest_loss(logits, batch.targets)
            take_step(loss, optimizer)
            yield {"loss/one_vs_rest": loss, "train/accuracy": accuracy(logits, batch.targets)}

    run_epochs({"net": net, "optimizer": optimizer}, training, steps)
    return Trained()


ONE_VS_REST = OwnNetwork(
    name=NAME, schedules={"full": FULL, "quick": QUICK}, make=make, train=train, scores_images=False
)
