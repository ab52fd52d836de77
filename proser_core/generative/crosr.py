"""DHRNet and LadderNet of CROSR (Yoshihashi et al. 2019), trained to classify and to reconstruct at once.

One DHRNet serves CROSR and "DHRNet + Softmax" and "+ OpenMax", one LadderNet the two rows of its name.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from proser_core.config import OptimizerConfig
from proser_core.data.augmentation.batches import BatchSlice
from proser_core.generative.loop import accuracy, descend
from proser_core.generative.own_network import OwnNetwork, OwnTraining, Picture, TaskShape, Trained
from proser_core.generative.pixels import picture, shown
from proser_core.generative.vgg import ReconstructingVgg, VggSchedule
from proser_core.learning.optimizers import make_optimizer

FULL = VggSchedule(epochs=200, batch_size=128, channels=(64, 128, 256), convolutions=(2, 2, 4), hidden=1024)
"""The released network; 200 epochs with a cosine instead of 500 with steps (method notes)."""
QUICK = replace(FULL, epochs=10, batch_size=64, channels=(16, 32, 64), hidden=256, rates="one_cycle")
"""A quarter of the width, for two CPU cores."""


def train(net: ReconstructingVgg, training: OwnTraining[VggSchedule]) -> Trained:
    """Cross-entropy and the mean squared error of the reconstruction of the augmented image."""
    schedule, batches = training.schedule, training.batches("crosr")
    config = OptimizerConfig(
        epochs=schedule.epochs, lr=schedule.lr, weight_decay=schedule.weight_decay, schedule=schedule.rates
    )
    optimizer = make_optimizer(net.parameters(), config, training.arithmetic)

    def loss_of(batch: BatchSlice, epoch: int, step: int) -> Mapping[str, Tensor]:
        logits, reconstructions = net.with_reconstruction(batch.images)
        classes = F.cross_entropy(logits.float(), batch.targets)
        error = F.mse_loss(reconstructions.float(), batch.images)
        return {
            "loss/total": classes + schedule.reconstruction_weight * error,
            "loss/closed_set": classes,
            "loss/reconstruction": error,
            "train/accuracy": accuracy(logits, batch.targets),
        }

    descend(net, optimizer, loss_of, batches, config, training)
    error, pixels = _reconstructions(net.eval(), training)
    return Trained({"reconstruction_error": error}, {"training images above their reconstructions": pixels})


@torch.no_grad()
def _reconstructions(net: ReconstructingVgg, training: OwnTraining[VggSchedule]) -> tuple[float, Picture]:
    """Mean squared error of the training images to show, normalised, and the images above what the network makes of
    them."""
    task, device = training.task, training.device
    images, _ = shown(task, task.train, device)
    made = net.with_reconstruction(images)[1].float()
    mean, std = (torch.tensor(each, device=device).view(3, 1, 1) for each in (task.mean, task.std))
    return float(F.mse_loss(made, images)), picture(images * std + mean, made * std + mean)


def _refusal(shape: TaskShape) -> str:
    halvings = len(FULL.channels)
    if shape.image_size % 2**halvings:
        return f"images of {shape.image_size} pixels cannot be halved {halvings} times; use a multiple of {2**halvings}"
    return ""


def _network(name: str, *, has_bottlenecks: bool) -> OwnNetwork[VggSchedule]:
    return OwnNetwork(
        name=name,
        schedules={"full": FULL, "quick": QUICK},
        make=partial(ReconstructingVgg, has_bottlenecks=has_bottlenecks),
        train=train,
        refusal=_refusal,
    )


DHRNET = _network("DHRNet", has_bottlenecks=True)
LADDERNET = _network("LadderNet", has_bottlenecks=False)
