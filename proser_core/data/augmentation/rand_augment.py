"""RandAugment (Cubuk et al. 2020) with one operation per image, on whole batches.

The fourteen operations, and the strength of each on a scale of 31 steps, are those of
`torchvision.transforms.v2.RandAugment`; images that got the same operation go through it together.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as F

STEPS = 31
"""Magnitudes 0..30, from no strength to the strongest."""


class Operation(NamedTuple):
    """`apply(images uint8[B, 3, H, W], strength)`, and the ends of the scale of its strength at H and W.

    The strength of a signed operation is taken positive or negative, image by image.
    """

    apply: Callable[[Tensor, float], Tensor]
    scale: Callable[[int, int], tuple[float, float]]
    signed: bool = False

    def strength(self, magnitude: int, height: int, width: int) -> float:
        """Step `magnitude` of the scale, in the float32 steps of torchvision."""
        return float(torch.linspace(*self.scale(height, width), STEPS)[magnitude])


def _shear(images: Tensor, x: float = 0.0, y: float = 0.0) -> Tensor:
    degrees = [math.degrees(math.atan(x)), math.degrees(math.atan(y))]
    return F.affine(images, angle=0.0, translate=[0, 0], scale=1.0, shear=degrees, center=[0, 0])


def _translate(images: Tensor, x: float = 0.0, y: float = 0.0) -> Tensor:
    return F.affine(images, angle=0.0, translate=[int(x), int(y)], scale=1.0, shear=[0.0, 0.0])


def _scale(first: float, last: float) -> Callable[[int, int], tuple[float, float]]:
    return lambda height, width: (first, last)


NONE = _scale(0.0, 0.0)
FACTOR = _scale(0.0, 0.9)
OPERATIONS: dict[str, Operation] = {
    "Identity": Operation(lambda images, _: images, NONE),
    "ShearX": Operation(lambda images, by: _shear(images, x=by), _scale(0.0, 0.3), signed=True),
    "ShearY": Operation(lambda images, by: _shear(images, y=by), _scale(0.0, 0.3), signed=True),
    "TranslateX": Operation(
        lambda images, by: _translate(images, x=by), lambda h, w: (0.0, 150 / 331 * w), signed=True
    ),
    "TranslateY": Operation(
        lambda images, by: _translate(images, y=by), lambda h, w: (0.0, 150 / 331 * h), signed=True
    ),
    "Rotate": Operation(lambda images, by: F.rotate(images, angle=by), _scale(0.0, 30.0), signed=True),
    "Brightness": Operation(lambda images, by: F.adjust_brightness(images, 1.0 + by), FACTOR, signed=True),
    "Color": Operation(lambda images, by: F.adjust_saturation(images, 1.0 + by), FACTOR, signed=True),
    "Contrast": Operation(lambda images, by: F.adjust_contrast(images, 1.0 + by), FACTOR, signed=True),
    "Sharpness": Operation(lambda images, by: F.adjust_sharpness(images, 1.0 + by), FACTOR, signed=True),
    "Posterize": Operation(lambda images, bits: F.posterize(images, round(bits)), _scale(8.0, 4.0)),
    "Solarize": Operation(lambda images, at: F.solarize(images, 255 * at), _scale(1.0, 0.0)),
    "AutoContrast": Operation(lambda images, _: F.autocontrast(images), NONE),
    "Equalize": Operation(lambda images, _: F.equalize(images), NONE),
}


def draw_operations(generator: np.random.Generator, count: int) -> np.ndarray:
    """int64[2, B], for each of B = `count` images a position in OPERATIONS, and 1 where a signed strength is negative,
    all equally likely."""
    return np.stack([generator.integers(0, len(OPERATIONS), count), generator.integers(0, 2, count)])


def rand_augment(pixels: Tensor, draw: np.ndarray, magnitude: int) -> Tensor:
    """uint8[B, H, W, 3], each image after what `draw_operations` drew for it; `magnitude` is 1..30."""
    operations, negative = draw
    table = list(OPERATIONS.values())
    signed = np.array([operation.signed for operation in table])
    kinds = 2 * operations + negative * signed[operations]
    order = np.argsort(kinds, kind="stable")
    present, counts = np.unique(kinds, return_counts=True)
    position = torch.from_numpy(order).to(pixels.device)
    groups = pixels.index_select(0, position).permute(0, 3, 1, 2).split(counts.tolist())
    height, width = pixels.shape[1:3]
    changed = []
    for kind, group in zip(present.tolist(), groups, strict=True):
        operation = table[kind // 2]
        strength = operation.strength(magnitude, height, width)
        changed.append(operation.apply(group, -strength if kind % 2 else strength))
    result = torch.empty_like(pixels)
    result[position] = torch.cat(changed).permute(0, 2, 3, 1)
    return result
