"""C2AE: a decoder that is conditioned on a class gives an image of it; an unknown image is reconstructed badly under
every class (Oza and Patel 2019).

The authors' code is not available. Widths are those of Neal et al. 2018; pairs and epochs are decided here
(docs/method-notes.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from proser_core.config import OptimizerConfig
from proser_core.data.augmentation.batches import BatchSlice
from proser_core.generative.c2ae_network import HALVED, C2aeNet, CodeClassifier, decoder_losses
from proser_core.generative.gpd import best_threshold, right_and_wrong
from proser_core.generative.loop import accuracy, descend
from proser_core.generative.own_network import OwnNetwork, OwnTraining, Picture, TaskShape, Trained
from proser_core.generative.pixels import generated_side, picture, shown
from proser_core.generative.subsets import SubsetSchedule, at_most
from proser_core.rng import keyed_generator


@dataclass(frozen=True, kw_only=True)
class C2aeSchedule(SubsetSchedule):
    """How the classifier, or the decoder behind it, is trained: Adam at a constant rate."""

    width: int = 128
    """Channels of the encoder from its third convolution on, and of a code. Source: Neal et al. 2018."""
    lr: float = 3e-4
    """Learning rate. From memory of the paper, unverified."""


@dataclass(frozen=True, kw_only=True)
class DecoderSchedule(C2aeSchedule):
    """The decoder's own fields."""

    right_weight: float = 0.9
    """alpha, the weight of the error under the right class; that under a wrong one has the rest. From memory of the
    paper, unverified."""


FULL_CLASSIFIER = C2aeSchedule(epochs=100, batch_size=64)
QUICK_CLASSIFIER = C2aeSchedule(epochs=8, batch_size=32, width=64, lr=1e-3, per_class=1000)
FULL = DecoderSchedule(epochs=150, batch_size=64)
QUICK = DecoderSchedule(epochs=15, batch_size=32, width=64, lr=3e-3, per_class=1000)


def train_classifier(net: CodeClassifier, training: OwnTraining[C2aeSchedule]) -> Trained:
    """Cross-entropy on the recipe's augmented images."""
    schedule = training.schedule

    def loss_of(batch: BatchSlice, epoch: int, step: int) -> Mapping[str, Tensor]:
        logits = net(batch.images).float()
        loss = F.cross_entropy(logits, batch.targets)
        return {"loss/total": loss, "loss/closed_set": loss, "train/accuracy": accuracy(logits, batch.targets)}

    optimizer = torch.optim.Adam(net.parameters(), lr=schedule.lr)
    batches = training.batches("c2ae classifier", at_most(training.task.train, schedule.per_class))
    descend(net, optimizer, loss_of, batches, _constant_rate(schedule), training)
    return Trained()


def train_c2ae(net: C2aeNet, training: OwnTraining[DecoderSchedule]) -> Trained:
    """The decoder on images as they are, neither cropped nor mirrored; then the method's own threshold."""
    schedule, task = training.schedule, training.task
    net.closed_set.load_state_dict(training.parts[CLASSIFIER.name].state_dict())
    net.pixels.fill(task)

    def loss_of(batch: BatchSlice, epoch: int, step: int) -> Mapping[str, Tensor]:
        order = keyed_generator(training.seed, "c2ae pairs", epoch, step).permutation(len(batch.targets))
        return decoder_losses(net, batch, torch.from_numpy(order).to(training.device), schedule.right_weight)

    optimizer = torch.optim.Adam(net.decoder.parameters(), lr=schedule.lr)
    images = at_most(task.train, schedule.per_class)
    unaugmented = replace(training, data=replace(training.data, augmentation="none"))
    batches = unaugmented.batches("c2ae", images)
    descend(net, optimizer, loss_of, batches, _constant_rate(schedule), training)
    _, errors = training.outputs(net, images.images)
    return Trained(_facts(errors, np.asarray(images.targets)), _pictures(net, training))


def _facts(errors: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """The method's own threshold, and the errors of training images that it is fitted to."""
    right, wrong = right_and_wrong(errors, targets)
    return {
        "threshold": best_threshold(right, wrong),
        "error_under_right_class": float(right.mean()),
        "error_under_wrong_class": float(wrong.mean()),
    }


@torch.no_grad()
def _pictures(net: C2aeNet, training: OwnTraining[DecoderSchedule]) -> dict[str, Picture]:
    """Validation images as they are, and decoded under their own and the next class."""
    images, targets = shown(training.task, training.task.val, training.device)
    net.eval()
    codes = net.closed_set.codes(images)
    both = [net.decoder(codes, label) for label in (targets, (targets + 1) % net.num_known)]
    return {"validation images, decoded under their own class and under the next": picture(net.pixels(images), *both)}


def _constant_rate(schedule: C2aeSchedule) -> OptimizerConfig:
    return OptimizerConfig(epochs=schedule.epochs, lr=schedule.lr, schedule="constant")


def _refusal(shape: TaskShape) -> str:
    if generated_side(shape.image_size) % HALVED:
        return f"C2AE halves an image four times; {shape.image_size} pixels do not suit it: set data.image_size to 32"
    return ""


CLASSIFIER = OwnNetwork(
    name="C2AE classifier",
    schedules={"full": FULL_CLASSIFIER, "quick": QUICK_CLASSIFIER},
    make=lambda shape, schedule: CodeClassifier(shape, schedule.width),
    train=train_classifier,
    scores_images=False,
    refusal=_refusal,
)
C2AE = OwnNetwork(
    name="C2AE",
    schedules={"full": FULL, "quick": QUICK},
    make=lambda shape, schedule: C2aeNet(shape, schedule.width),
    train=train_c2ae,
    needs=(CLASSIFIER.name,),
    refusal=_refusal,
)
