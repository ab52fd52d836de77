"""The networks of C2AE, and the loss of its decoder (Oza and Patel 2019)."""

import torch
from torch import Tensor, nn

from proser_core.data.augmentation.batches import BatchSlice
from proser_core.generative.convolutions import nine_blocks
from proser_core.generative.film import ClassConditionedDecoder
from proser_core.generative.own_network import TaskShape
from proser_core.generative.pixels import Pixels, generated_side, scaled
from proser_core.networks.classifier32 import ConvBlock, Flat
from proser_core.networks.nets import ClassLogits

HALVED = 16
"""Rows of pixels that one row of a code covers: ten blocks, four of stride 2."""


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
        """As of any module, but the closed-set part stays in evaluation mode."""
        super().train(mode)
        self.closed_set.eval()
        return self

    def forward(self, images: Tensor) -> ClassLogits:
        codes, pixels = self.closed_set.codes(images), self.pixels(images)
        errors = [absolute_errors(pixels, self.decoded(codes, k)) for k in range(self.num_known)]
        return ClassLogits(self.closed_set.classifier(codes), torch.stack(errors, dim=1))

    def decoded(self, codes: Tensor, known_class: int) -> Tensor:
        """Images [B, 3, s, s] in [0, 1]: all codes under one class."""
        return self.decoder(codes, torch.full((codes.shape[0],), known_class, device=codes.device))


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
