"""The networks of C2AE, and the loss of its decoder (Oza and Patel 2019).

The decoder is conditioned on a class by feature-wise linear modulation of the code (FiLM, Perez et al. 2018).
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proser_core.data.augmentation.batches import BatchSlice
from proser_core.generative.convolutions import Decoder32, nine_blocks
from proser_core.generative.own_network import TaskShape
from proser_core.generative.pixels import Pixels, generated_side, scaled
from proser_core.networks.classifier32 import ConvBlock, Flat
from proser_core.networks.nets import ClassLogits

HALVED = 16
"""Rows of pixels that one row of a code covers: ten blocks, four of stride 2."""
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
    return 2.0 * F.one_hot(targets, num_known).float() - 1.0


class ClassConditionedDecoder(nn.Module):
    """Codes [B, C, s, s] and classes int64[B] to images [B, 3, S, S] in [0, 1]; no way around the code."""

    def __init__(self, num_known: int, code_shape: CodeShape, widths: Sequence[int]) -> None:
        super().__init__()
        self._num_known = num_known
        self.film = Film(num_known, code_shape)
        self.decoder = Decoder32(code_shape[0], widths)

    def forward(self, codes: Tensor, targets: Tensor) -> Tensor:
        return self.decoder(self.film(codes, label_vectors(targets, self._num_known)))


class CodeClassifier(nn.Module):
    """The closed-set part: normalised images [B, 3, S, S] to codes [B, width, s, s], and to logits [B, K] of them."""

    def __init__(self, shape: TaskShape, width: int) -> None:
        super().__init__()
        self.side = generated_side(shape.image_size)
        self.encoder = nn.Sequential(nine_blocks(width), ConvBlock(width, width, stride=2))
        self.classifier = nn.Sequential(Flat(), nn.Linear(width * (self.side // HALVED) ** 2, shape.num_known))

    def codes(self, images: Tensor) -> Tensor:
        """What the decoder is given."""
        return self.encoder(scaled(images, self.side))

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.codes(images))


class C2aeNet(nn.Module):
    """Images [B, 3, S, S] to logits and, as dummies, the mean absolute error under each known class, [B, K].

    The closed-set part is never trained here.
    """

    def __init__(self, shape: TaskShape, width: int) -> None:
        super().__init__()
        self.num_known = shape.num_known
        self.pixels = Pixels(shape.image_size)
        self.closed_set = CodeClassifier(shape, width).requires_grad_(False)
        side = self.pixels.side // HALVED
        self.decoder = ClassConditionedDecoder(
            shape.num_known, (width, side, side), (4 * width, 4 * width, 2 * width, width)
        )

    def train(self, mode: bool = True) -> "C2aeNet":
        """Switches the mode as any module does, but the closed-set part stays in evaluation mode."""
        super().train(mode)
        self.closed_set.eval()
        return self

    def forward(self, images: Tensor) -> ClassLogits:
        codes, pixels = self.closed_set.codes(images), self.pixels(images)
        under = (torch.full((codes.shape[0],), k, device=codes.device) for k in range(self.num_known))
        errors = [absolute_errors(pixels, self.decoder(codes, each)) for each in under]
        return ClassLogits(self.closed_set.classifier(codes), torch.stack(errors, dim=1))


def absolute_errors(pixels: Tensor, decoded: Tensor) -> Tensor:
    """Mean absolute difference of each image, float32[B]."""
    return (pixels - decoded.float()).abs().mean(dim=(1, 2, 3))


def partners_of_other_classes(targets: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """For every image one of another class, int64[B], and weights float32[B]: 0 where the batch has no other class.

    `order` is a permutation of the batch, read as a cycle: the partner is the first of another class that follows.
    """
    count = len(targets)
    places = torch.arange(count, device=targets.device)
    following = order[(places[:, None] + places) % count]  # [B, B]: from each place of the cycle, all images in turn
    differs = targets[following] != targets[order][:, None]
    found = following[places, differs.int().argmax(dim=1)]
    partners, weights = torch.empty_like(order), torch.empty(count, device=targets.device)
    partners[order], weights[order] = found, differs.any(dim=1).float()
    return partners, weights


def decoder_losses(net: C2aeNet, batch: BatchSlice, order: Tensor, right_weight: float) -> dict[str, Tensor]:
    """`alpha * mean |x - G(z, y)| + (1 - alpha) * mean |x' - G(z, y')|`: z is the code of x, and x' of class y' another
    image of the batch, which the decoder has to give where it is told y'."""
    with torch.no_grad():
        codes, pixels = net.closed_set.codes(batch.images), net.pixels(batch.images)
    partners, weights = partners_of_other_classes(batch.targets, order)
    labels = torch.cat([batch.targets, batch.targets[partners]])
    decoded = net.decoder(torch.cat([codes, codes]), labels)
    right, wrong = absolute_errors(torch.cat([pixels, pixels[partners]]), decoded).chunk(2)
    by_right, by_wrong = right.mean(), (wrong * weights).sum() / weights.sum().clamp(min=1)
    loss = right_weight * by_right + (1 - right_weight) * by_wrong
    return {"loss/total": loss, "loss/right_class": by_right, "loss/wrong_class": by_wrong}
