"""A decoder that is told a class: feature-wise linear modulation of the code (FiLM, Perez et al. 2018), as in C2AE."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from proser_core.generative.convolutions import Decoder32

CodeShape = tuple[int, int, int]
"""Channels, rows and columns of one code."""


class Film(nn.Module):
    """`gamma(l) * z + beta(l)`, entry by entry: codes z [B, C, s, s] and label vectors l [B, K] to [B, C, s, s].

    gamma and beta are one linear layer each. They begin at 1 and 0, whatever the label: the code as it is.
    """

    def __init__(self, num_known: int, code_shape: CodeShape) -> None:
        super().__init__()
        self.gamma, self.beta = (_constant(num_known, math.prod(code_shape), value) for value in (1.0, 0.0))

    def forward(self, codes: Tensor, labels: Tensor) -> Tensor:
        return self.gamma(labels).view_as(codes) * codes + self.beta(labels).view_as(codes)


def _constant(inputs: int, outputs: int, value: float) -> nn.Linear:
    """A layer whose outputs are all `value` before training."""
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, value)
    return layer


def label_vectors(targets: Tensor, num_known: int) -> Tensor:
    """float32[B, K] of classes int64[B]: 1 at the class and -1 elsewhere."""
    return 2.0 * torch.nn.functional.one_hot(targets, num_known).float() - 1.0


class ClassConditionedDecoder(nn.Module):
    """Codes [B, C, s, s] and classes int64[B] to images [B, 3, S, S] in [0, 1]; no way around the code."""

    def __init__(self, num_known: int, code_shape: CodeShape, widths: Sequence[int]) -> None:
        super().__init__()
        self._num_known = num_known
        self.film = Film(num_known, code_shape)
        self.decoder = Decoder32(code_shape[0], widths)

    def forward(self, codes: Tensor, targets: Tensor) -> Tensor:
        return self.decoder(self.film(codes, label_vectors(targets, self._num_known)))
