"""How far an image lies from the mean of each class, as a probability: OpenMax's tails as buffers of a network."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from proser_core.learning.tails import EUCLIDEAN_UNIT, Tails

Distance = Callable[[Tensor, Tensor], Tensor]
"""Activations float64[N, D] and means float64[C, D] to distances float64[N, C], pair by pair: a product of matrices
would round by the size of the batch."""


def euclidean(activations: Tensor, means: Tensor) -> Tensor:
    """`|a - m|`."""
    return (activations[:, None] - means).square().sum(dim=2).sqrt()


def eucos(activations: Tensor, means: Tensor) -> Tensor:
    """OpenMax's distance: Euclidean / 200 + cosine, which is 1/2 from a vector of zeros."""
    return euclidean(activations, means) / EUCLIDEAN_UNIT + euclidean(_units(activations), _units(means)).square() / 2


class TailScores(nn.Module):
    """Activations [N, D] to the probability, float64[N, C], that each is beyond class c: a Weibull distribution of the
    distance to its mean, fitted elsewhere."""

    means: Tensor
    shapes: Tensor
    scales: Tensor
    starts: Tensor

    def __init__(self, num_classes: int, num_activations: int, distance: Distance) -> None:
        super().__init__()
        self._distance = distance
        self.register_buffer("means", torch.zeros(num_classes, num_activations, dtype=torch.float64))
        for name in ("shapes", "scales", "starts"):
            self.register_buffer(name, torch.ones(num_classes, dtype=torch.float64))

    def fill(self, tails: Tails) -> None:
        """Take what was fitted."""
        for name, buffer in self.named_buffers():
            buffer.copy_(torch.from_numpy(getattr(tails, name)))

    def forward(self, activations: Tensor) -> Tensor:
        beyond = (self._distance(activations.double(), self.means) - self.starts + 1).clamp(min=0)
        return -torch.expm1(-((beyond / self.scales) ** self.shapes))


def _units(vectors: Tensor) -> Tensor:
    lengths = vectors.norm(dim=1, keepdim=True)
    return vectors / torch.where(lengths > 0, lengths, 1.0)
