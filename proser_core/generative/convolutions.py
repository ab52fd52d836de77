"""Encoder, decoder, discriminator and classifier of Neal et al. 2018, for images in [0, 1] of 32 pixels.

As in the authors' code (lwneal/counterfactual-open-set); departures are in docs/method-notes.md. Other sides that are
multiples of 8 serve too: a code then has side / 8 rows instead of 4.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

from proser_core.networks.classifier32 import ConvBlock, Flat

WIDTH = 128  # channels of classifier32 from the third convolution on
HALVINGS = 3  # convolutions of stride 2
SMALLEST_NORM = 1e-12  # a piece of zeros stays what it is
Convolution = TypeVar("Convolution", nn.Conv2d, nn.ConvTranspose2d)


def code_side(side: int) -> int:
    """Rows of a code, of which each covers 8 rows of pixels."""
    return side // 2**HALVINGS


def nine_blocks(width: int = WIDTH, dropout: float = 0.0, channels_in: int = 3) -> nn.Sequential:
    """The convolutions of classifier32: [B, channels_in, S, S] to [B, width, S/8, S/8], whole channels dropped out
    before each of the three stages."""

    blocks: OrderedDict[str, nn.Module] = OrderedDict()
    widths = [channels_in, *[width // 2] * 2, *[width] * 7]
    for number, (before, after) in enumerate(pairwise(widths), start=1):
        if dropout and number % 3 == 1:
            blocks[f"dropout{number}"] = nn.Dropout2d(dropout)
        blocks[f"block{number}"] = ConvBlock(before, after, stride=2 if number % 3 == 0 else 1)
    return nn.Sequential(blocks)


class Encoder32(nn.Module):
    """Images [B, 3, S, S] to codes [B, codes, S/8, S/8], which `sphere` may normalise."""

    def __init__(self, codes: int, width: int = WIDTH, dropout: float = 0.0) -> None:
        super().__init__()
        self.blocks = nine_blocks(width, dropout)
        self.to_codes = _normal(nn.Conv2d(width, codes, 3, padding=1, bias=False))

    def forward(self, images: Tensor) -> Tensor:
        return self.to_codes(self.blocks(images))


class Decoder32(nn.Sequential):
    """Codes [B, codes, s, s] to images [B, 3, s * 2^n, s * 2^n] in [0, 1], n being the number of widths.

    A 1x1 convolution without activation, then one 4x4 of stride 2 from each width; LeakyReLU(0.01) before BatchNorm.
    """

    def __init__(self, codes: int, widths: Sequence[int] = (4 * WIDTH, 2 * WIDTH, WIDTH)) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["from_codes"] = _normal(nn.ConvTranspose2d(codes, widths[0], 1, bias=False))
        for number, (channels_in, channels) in enumerate(pairwise(widths), start=1):
            layers[f"double{number}"] = _normal(_doubling(channels_in, channels, bias=False))
            layers[f"activation{number}"] = nn.LeakyReLU(0.01)
            layers[f"norm{number}"] = nn.BatchNorm2d(channels)
            nn.init.normal_(layers[f"norm{number}"].weight, 1.0, 0.02)  # type: ignore[arg-type]
        layers["to_pixels"] = _normal(_doubling(widths[-1], 3, bias=True))
        layers["unit_range"] = nn.Sigmoid()
        super().__init__(layers)


class Discriminator32(nn.Module):
    """Images [B, 3, S, S] to one number each, float[B], larger for real.

    It sees, beside an image's own features, `exp(-mean over the batch)` of them: a batch of look-alikes is told by it.
    """

    def __init__(self, side: int = 32, width: int = WIDTH, dropout: float = 0.0) -> None:
        super().__init__()
        self.features = nn.Sequential(nine_blocks(width, dropout), Flat())
        self.real = nn.Linear(2 * width * code_side(side) ** 2, 1)

    def forward(self, images: Tensor) -> Tensor:
        features = self.features(images)
        of_batch = torch.exp(-features.mean(dim=0, keepdim=True)).expand_as(features)
        return self.real(torch.cat([features, of_batch], dim=1))[:, 0]


class Classifier32(nn.Sequential):
    """Images [B, 3, S, S] to logits [B, outputs]: classifier32_flat in any width."""

    def __init__(self, outputs: int, side: int = 32, width: int = WIDTH, dropout: float = 0.0) -> None:
        linear = nn.Linear(width * code_side(side) ** 2, outputs)
        super().__init__(OrderedDict(blocks=nine_blocks(width, dropout), flat=Flat(), linear=linear))


def sphere(codes: Tensor) -> Tensor:
    """Codes [B, L, s, s] whose s*s pieces have length 1 each.

    A piece is L entries that follow one another in the flat, channel-first order: at 4x4 places, four whole channels
    of 64. So it is in the authors' code.
    """
    pieces = codes.reshape(len(codes), codes.shape[2] * codes.shape[3], codes.shape[1])
    return (pieces / pieces.norm(dim=2, keepdim=True).clamp(min=SMALLEST_NORM)).reshape(codes.shape)


def _doubling(channels_in: int, channels: int, *, bias: bool) -> nn.ConvTranspose2d:
    return nn.ConvTranspose2d(channels_in, channels, 4, stride=2, padding=1, bias=bias)


def _normal(convolution: Convolution) -> Convolution:
    """The same with weights of N(0, 0.05) and a bias of 0."""
    nn.init.normal_(convolution.weight, 0.0, 0.05)
    if convolution.bias is not None:
        nn.init.zeros_(convolution.bias)
    return convolution
