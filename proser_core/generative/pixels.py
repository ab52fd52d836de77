"""From the normalised images that a network is handed to the pixels in [0, 1] that generators work on."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.data.tasks import OpenSetTask

LARGEST_SIDE = 32
"""Larger images are made smaller by area means, as Neal et al. 2018 did with Tiny-ImageNet."""
STEP = 8
"""A side is a multiple of it: three convolutions halve it."""


def generated_side(image_size: int) -> int:
    """Height and width of generated images: the next multiple of 8, at most 32."""
    return min(-(-image_size // STEP) * STEP, LARGEST_SIDE)


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


def scaled(pixels: Tensor, side: int) -> Tensor:
    """Images [B, 3, S, S] at `side` rows and columns, by area means."""
    return pixels if pixels.shape[-1] == side else F.interpolate(pixels, size=(side, side), mode="area")
