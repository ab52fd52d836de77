"""A method with a network of its own, which needs another one, as the generative ones do; both train in a second."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.baselines import Method
from proser_core.errors import TrainingError
from proser_core.generative.loop import run_epochs
from proser_core.generative.own_network import OwnNetwork, OwnTraining, Schedule, TaskShape, Trained
from proser_core.networks.nets import ClassLogits
from proser_core.recognition.scores import MaxLogit


@dataclass(frozen=True, kw_only=True)
class TinySchedule(Schedule):
    """Of both."""

    lr: float = 0.05


QUICK = TinySchedule(epochs=2, batch_size=32)
SCHEDULES = {"quick": QUICK, "full": TinySchedule(epochs=3, batch_size=32)}


class Blur(nn.Module):
    """Images [B, 3, H, W] to [B, 3 * 16], by one convolution: what the classifier stands on."""

    def __init__(self, shape: TaskShape, schedule: TinySchedule) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(self.convolution(images), 4).flatten(1)


class Nearest(nn.Module):
    """Logits of a linear layer on the blurred image, and the size of the image as a dummy."""

    def __init__(self, shape: TaskShape, schedule: TinySchedule) -> None:
        super().__init__()
        self.blur = Blur(shape, schedule).requires_grad_(False)
        self.classifier = nn.Sequential(nn.Dropout(0.1), nn.Linear(48, shape.num_known))

    def forward(self, images: Tensor) -> ClassLogits:
        return ClassLogits(self.classifier(self.blur(images)), images.square().mean((1, 2, 3))[:, None])


def train_blur(net: Blur, training: OwnTraining[TinySchedule]) -> Trained:
    """Towards the image itself."""
    batches = training.plain_batches("blur")
    optimizer = torch.optim.Adam(net.parameters(), training.schedule.lr)

    def steps(epoch: int) -> Iterator[dict[str, Tensor]]:
        for batch in batches.epoch(epoch):
            loss = F.mse_loss(net.convolution(batch.images), batch.images)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield {"loss/reconstruction": loss}

    run_epochs({"net": net, "optimizer": optimizer}, training, steps)
    return Trained({"blurred": True})


def train_nearest(net: Nearest, training: OwnTraining[TinySchedule]) -> Trained:
    """By cross-entropy, on the trained part."""
    net.blur.load_state_dict(training.parts["blur"].state_dict())
    batches = training.batches("nearest")
    optimizer = torch.optim.Adam(net.classifier.parameters(), training.schedule.lr)

    def steps(epoch: int) -> Iterator[dict[str, Tensor]]:
        for batch in batches.epoch(epoch):
            loss = F.cross_entropy(net(batch.images).known, batch.targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield {"loss/closed_set": loss}

    run_epochs({"net": net, "optimizer": optimizer}, training, steps)
    pixels = training.task.train.images[:4]
    return Trained({"known": training.task.num_known}, {"the first images": pixels[None]})


def diverges(net: nn.Module, training: OwnTraining[TinySchedule]) -> Trained:
    """Stands for a generative network that does not converge."""
    raise TrainingError("the loss is nan in epoch 1")


BLUR: OwnNetwork[Any] = OwnNetwork(name="blur", schedules=SCHEDULES, make=Blur, train=train_blur, scores_images=False)
NEAREST: OwnNetwork[Any] = OwnNetwork(
    name="Nearest (mean), plain", schedules=SCHEDULES, make=Nearest, train=train_nearest, needs=("blur",)
)
DIVERGES: OwnNetwork[Any] = OwnNetwork(
    name="Diverges", schedules=SCHEDULES, make=Nearest, train=diverges, needs=("blur",)
)
METHOD = Method("Nearest mean", "here", MaxLogit(), network="Nearest (mean), plain")
DIVERGING = Method("Diverging", "here", MaxLogit(), network="Diverges")
