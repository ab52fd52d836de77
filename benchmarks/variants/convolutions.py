"""The convolutions of classifier32 one by one: how fast the machine multiplies at best, in bf16."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.harness.settings import Settings
from benchmarks.harness.timing import seconds_of
from benchmarks.variants.setups import placeholder_net


@dataclass(frozen=True)
class Shape:
    """One 3x3 convolution on square images: `side` pixels come in."""

    channels_in: int
    channels_out: int
    side: int
    stride: int
    first: bool

    @property
    def name(self) -> str:
        """Such as `128 -> 128, 16 px`."""
        stride = f", stride {self.stride}" if self.stride > 1 else ""
        return f"{self.channels_in} -> {self.channels_out}, {self.side} px{stride}"

    @property
    def flops(self) -> int:
        """Forward and backward for one image; the first convolution needs no gradient of its input."""
        side_out = -(-self.side // self.stride)
        forward = 2 * 9 * self.channels_in * self.channels_out * side_out**2
        return forward * (2 if self.first else 3)


def shapes(settings: Settings) -> list[Shape]:
    """Those of the network, in order, with the side that each one sees."""
    found: list[Shape] = []
    side = settings.image_size
    for module in placeholder_net(settings).modules():
        if isinstance(module, nn.Conv2d):
            stride = int(module.stride[0])
            found.append(Shape(module.in_channels, module.out_channels, side, stride, first=not found))
            side = -(-side // stride)
    return found


class Convolution:
    """Forward and backward of one shape on one batch, everything bf16 and channels_last already."""

    def __init__(self, shape: Shape, batch_size: int, device: torch.device) -> None:
        def noise(*size: int) -> torch.Tensor:
            return torch.randn(size, device=device).bfloat16().to(memory_format=torch.channels_last)

        self._input = noise(batch_size, shape.channels_in, shape.side, shape.side).requires_grad_(not shape.first)
        self._weight = noise(shape.channels_out, shape.channels_in, 3, 3).requires_grad_()
        self._stride = shape.stride
        self._gradient = torch.randn_like(self._forward())
        self.flops = shape.flops * batch_size

    def _forward(self) -> torch.Tensor:
        return F.conv2d(self._input, self._weight, stride=self._stride, padding=1)

    def __call__(self) -> None:
        self._input.grad = self._weight.grad = None
        self._forward().backward(self._gradient)


def best_seconds(convolution: Convolution, settings: Settings) -> float:
    """The fastest of some calls: a peak is what the machine can do when nothing disturbs it."""
    return min(seconds_of(convolution) for _ in range(3 if settings.quick else 20))


def batch_sizes(settings: Settings) -> tuple[int, int]:
    """The step's own batch, and one that stays in a core's cache."""
    return settings.batch_size, settings.batch_size // 4
