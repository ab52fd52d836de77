"""Pixels in [0, 1], on which generators work: from a task's batches, and from images as classifiers are handed them.
Also the pictures of a report."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.data.normalisation import Normaliser, evaluation_batches
from proser_core.data.tasks import Labelled, OpenSetTask
from proser_core.generative.own_network import UNIT_RANGE, OwnTraining, Schedule

LARGEST_SIDE = 32
"""Larger images are made smaller by area means, as Neal et al. 2018 did with Tiny-ImageNet."""
STEP = 8
"""A side is a multiple of it: three convolutions halve it."""
COLUMNS = 8
"""Images in a row of a picture."""


@dataclass(frozen=True, kw_only=True)
class PixelSchedule(Schedule):
    """A schedule of a network that is trained on pixels by Adam."""

    width: int
    """Channels from the third convolution on. Source: Neal et al. 2018 have 128."""
    lr: float
    """Learning rate. Source: that of the instance."""
    least_steps: int = 0
    """Batches in an epoch, at least: where an epoch is shorter, it is several passes. Source: method notes."""
    most_steps: int = 0
    """Batches in an epoch, at most; 0 sets no bound. Source: method notes."""

    def steps(self, one_pass: int) -> int:
        """Batches in an epoch, of so many in a pass over the training images."""
        return max(self.least_steps, min(self.most_steps or one_pass, one_pass))

    def epoch_images(self, count: int, num_known: int) -> int:
        """Images that an epoch passes over."""
        return self.steps(max(1, count // self.batch_size)) * self.batch_size


P = TypeVar("P", bound=PixelSchedule)


class PixelBatch(NamedTuple):
    """Pixels float32[B, 3, side, side] in [0, 1] and targets int64[B]."""

    pixels: Tensor
    targets: Tensor


class PixelBatches:
    """Batches of a task's training images in [0, 1], not augmented; `purpose` keys their order."""

    def __init__(self, training: OwnTraining[P], purpose: str) -> None:
        self._training, self._batches = training, training.plain_batches(purpose)
        self._steps = training.schedule.steps(self._batches.steps_per_epoch)
        self._side = generated_side(training.task.image_size)

    def epoch(self, epoch: int) -> Iterator[PixelBatch]:
        """The batches of an epoch; no two epochs share a pass."""
        passes = -(-self._steps // self._batches.steps_per_epoch)
        drawn = (batch for turn in range(passes) for batch in self._batches.epoch(epoch * passes + turn))
        for batch in islice(drawn, self._steps):
            yield PixelBatch(scaled(batch.images, self._side), batch.targets)

    def first(self, count: int) -> PixelBatch:
        """The first `count` images of the first pass, or all where there are fewer."""
        train, rows = self._training.task.train, self._batches.order(0)[:count]
        assert isinstance(train.images, np.ndarray), "networks of a method's own read images from memory"
        device = self._training.device
        loaded = evaluation_batches(train.images[rows], UNIT_RANGE, device)
        targets = torch.from_numpy(np.asarray(train.targets)[rows]).to(device)
        return PixelBatch(torch.cat([scaled(pixels, self._side) for pixels in loaded]), targets)


class Pixels(nn.Module):
    """Normalised images float32[B, 3, S, S] to pixels in [0, 1], float32[B, 3, side, side]; mean and standard
    deviation are a task's, as buffers."""

    mean: Tensor
    std: Tensor

    def __init__(self, image_size: int) -> None:
        super().__init__()
        self.side = generated_side(image_size)
        self.register_buffer("mean", torch.zeros(3, 1, 1))
        self.register_buffer("std", torch.ones(3, 1, 1))

    def fill(self, task: OpenSetTask) -> None:
        """Take the mean and standard deviation by which the task's images are normalised."""
        self.mean.copy_(torch.tensor(task.mean).view(3, 1, 1))
        self.std.copy_(torch.tensor(task.std).view(3, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        return scaled(images * self.std + self.mean, self.side)


def generated_side(image_size: int) -> int:
    """Height and width of generated images: the next multiple of 8, at most 32."""
    return min(-(-image_size // STEP) * STEP, LARGEST_SIDE)


def scaled(pixels: Tensor, side: int) -> Tensor:
    """Images [B, 3, S, S] at `side` rows and columns, by area means."""
    return pixels if pixels.shape[-1] == side else F.interpolate(pixels, size=(side, side), mode="area")


def picture(*rows: Tensor) -> np.ndarray:
    """Rows of pixels in [0, 1], float[columns, 3, H, W] each, as uint8[rows, columns, H, W, 3]."""
    pixels = torch.stack(rows).detach().clamp(0, 1) * 255
    return pixels.round().byte().permute(0, 1, 3, 4, 2).cpu().numpy()


def first_of_each_class(labelled: Labelled, columns: int = COLUMNS) -> np.ndarray:
    """int64[n]: rows of images, the first of every class in turn, then the second, until there are `columns`."""
    targets = np.asarray(labelled.targets)
    nth = np.zeros(len(targets), np.int64)
    for k in np.unique(targets):
        own = targets == k
        nth[own] = np.arange(own.sum())
    return np.lexsort((targets, nth))[:columns]


def shown(task: OpenSetTask, labelled: Labelled, device: torch.device) -> tuple[Tensor, Tensor]:
    """Images to show, float32[n, 3, S, S] normalised as the task's, and their targets int64[n]."""
    assert isinstance(labelled.images, np.ndarray), "networks of a method's own read images from memory"
    rows = first_of_each_class(labelled)
    pixels = torch.from_numpy(np.array(labelled.images[rows])).to(device)
    targets = torch.from_numpy(np.asarray(labelled.targets)[rows]).to(device)
    return Normaliser((task.mean, task.std), device)(pixels), targets
