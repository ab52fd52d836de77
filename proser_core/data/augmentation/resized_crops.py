"""Random resized crops (Szegedy et al. 2015) on whole batches: a part of each image, enlarged to the size of all.

The shapes are those of torchvision's RandomResizedCrop, but for the smallest part, a quarter of the image instead of
0.08: of small parts a class cannot be told, and unknown images may look like them.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

AREA = (0.25, 1.0)
"""Share of the image's area, evenly drawn."""
RATIO = (3 / 4, 4 / 3)
"""Width by height, its logarithm evenly drawn."""


def draw_boxes(generator: np.random.Generator, count: int) -> np.ndarray:
    """float32[B, 4] for B = `count` images: left, top, width and height, as fractions of the image."""
    area = generator.uniform(*AREA, count)
    ratio = np.exp(generator.uniform(math.log(RATIO[0]), math.log(RATIO[1]), count))
    sides = np.minimum(np.sqrt([area * ratio, area / ratio]), 1.0)  # torchvision draws again where a side is too long
    corners = generator.uniform(size=(2, count)) * (1.0 - sides)
    return np.concatenate([corners, sides]).T.astype(np.float32)


def resized_crops(pixels: Tensor, boxes: Tensor) -> Tensor:
    """uint8[B, H, W, 3] of uint8[B, H, W, 3]: each box as `draw_boxes` draws it, bilinearly enlarged."""
    corners, sides = boxes[:, :2], boxes[:, 2:]
    shifts = 2 * corners + sides - 1  # of the centres, where the image spans -1 to 1
    theta = torch.cat([torch.diag_embed(sides), shifts[:, :, None]], dim=2)
    images = pixels.permute(0, 3, 1, 2)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    crops = F.grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return crops.round().to(torch.uint8).permute(0, 2, 3, 1)
