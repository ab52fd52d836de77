"""Pixels as a network sees them, and the unaugmented batches of an evaluation."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from proser_core.data.image_sets import ImageSource, check_pixels, chunks, image_size
from proser_core.errors import ConfigError

Normalisation = tuple[tuple[float, float, float], tuple[float, float, float]]
"""Mean and standard deviation of each channel, of pixels from 0 to 1."""


class Normaliser:
    """uint8[B, H, W, 3] to float32[B, 3, H, W] in channels_last memory, zero mean and unit variance.

    Works on whole rows of pixels: three channels at a time are too few for a processor's vectors. Raises ConfigError
    for what is not the mean and the standard deviation of three channels.
    """

    def __init__(self, normalisation: Normalisation, device: torch.device) -> None:
        mean, std = torch.tensor(_checked(normalisation), device=device)
        self._pixel = 1.0 / (255.0 * std), -mean / std
        self._row = self._pixel

    def __call__(self, pixels: Tensor) -> Tensor:
        width = pixels.shape[2]
        if len(self._row[0]) != 3 * width:
            self._row = self._pixel[0].repeat(width), self._pixel[1].repeat(width)
        scale, shift = self._row
        return torch.addcmul(shift, pixels.flatten(2).float(), scale).view(pixels.shape).permute(0, 3, 1, 2)


def _checked(normalisation: Normalisation) -> np.ndarray:
    with suppress(TypeError, ValueError):  # of what is no table of numbers
        values = np.asarray(normalisation, np.float32)
        if values.shape == (2, 3) and np.isfinite(values).all() and (values[1] > 0).all():
            return values
    raise ConfigError(
        f"normalisation is {normalisation}; need (mean, std), each of three channels, of pixels from 0 to 1, with "
        "standard deviations above 0"
    )


def are_pixels(images: np.ndarray | ImageSource) -> bool:
    """Whether they are images; embeddings float32[N, d] of frozen features take their place. Raises DataError for an
    array that is neither."""
    if not isinstance(images, np.ndarray):
        return True
    if images.ndim == 2 and images.dtype != np.uint8:
        return False
    check_pixels(images)
    return True


def evaluation_batches(
    images: np.ndarray | ImageSource, normalisation: Normalisation, device: torch.device
) -> Iterator[Tensor]:
    """All images in order, unaugmented, float32[b, 3, H, W]. Where there are none, one black image, whose outputs tell
    the shape of none: many networks take no empty batch. Embeddings float32[N, d] in one batch, as they are. Raises
    DataError for an array that is neither."""
    if not are_pixels(images):
        yield torch.from_numpy(np.array(images)).to(device)
        return
    normalise, size = Normaliser(normalisation, device), image_size(images)
    none = [np.zeros((1, size, size, 3), np.uint8)]
    is_cpu = device.type == "cpu"
    decoded = 32 if is_cpu else max(32, min(1024, 1024 * 32**2 // size**2))  # by as many threads, if they are streamed
    # a CPU's caches hold so many, and glibc reuses their memory without page faults; a power of two cuts 32 evenly, and
    # kernels round by the number of images
    at_once = 1 << max(4, 1024 // size).bit_length() - 1 if is_cpu else decoded
    for chunk in chunks(images, decoded) if len(images) else none:
        for part in chunks(np.array(chunk), at_once):
            yield normalise(torch.from_numpy(part).to(device))
