"""Augmented training batches from images that stay in memory as uint8, or that are streamed.

The images are padded and mirrored once; a random crop is then one `index_select` over rows of pixels, without a Python
loop over images. Of streamed images this is done batch by batch, with the same draws: the batches are equal.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from proser_core.config import DataConfig, Flips
from proser_core.data.augmentation.balanced import balanced_order
from proser_core.data.augmentation.crop_tables import padded_versions, shared_table
from proser_core.data.augmentation.resized_crops import draw_boxes, resized_crops
from proser_core.data.image_sets import ImageSource, chunks, image_size
from proser_core.data.tasks import Labelled
from proser_core.errors import ConfigError
from proser_core.rng import keyed_generator

MAGNITUDE = 9
"""Of the RandAugment of strong augmentation, on its scale of 31 steps. Source: torchvision's default."""
Normalisation = tuple[tuple[float, float, float], tuple[float, float, float]]


@dataclass(frozen=True)
class BatchSlice:
    """One rank's share of a global batch.

    images float32[b, 3, H, W]; targets int64[b]; `global_targets` int64[B] of all ranks, in the
    same order of halves: the first b/2 images of a rank belong to the first half of the batch.
    """

    images: Tensor
    targets: Tensor
    global_targets: Tensor


class BatchDraw(NamedTuple):
    """One global batch as indices: rows int64[B] of its images; starts int64[b * H], where each row
    of pixels of this rank's crops begins in the table of crops; operations int64[2, b] for
    RandAugment, on the host; boxes float32[b, 4] of resized crops. Of streamed images, starts int64[b]
    are those of the first rows."""

    rows: Tensor
    starts: Tensor
    operations: Tensor
    boxes: Tensor


class TrainingBatches:
    """Batches of one epoch after another; each epoch a permutation keyed by (seed, purpose, epoch), or a balanced draw.

    Images that do not fill the last batch wait for another epoch, so that shapes are static. Streamed
    batches are loaded in the order in which they were drawn, each once.
    Raises ConfigError where the training images do not fill one batch.
    """

    def __init__(
        self,
        labelled: Labelled,
        config: DataConfig,
        normalisation: Normalisation,
        *,
        batch_size: int,
        seed: int,
        purpose: str,
        device: torch.device,
        rank: int = 0,
        world_size: int = 1,
        flips: Flips = "random",
        rand_augment: int = 0,
    ) -> None:
        if len(labelled) < batch_size:
            raise ConfigError(
                f"{purpose}.batch_size {batch_size} is more than the {len(labelled)} training images; "
                f"use at most {len(labelled) // 2 * 2}"
            )
        if not _are_pixels(labelled.images):  # embeddings are not augmented
            config = replace(config, augmentation="none", flip=False)
        self.batch_size, self.steps_per_epoch = batch_size, len(labelled) // batch_size
        self._config, self._seed, self._purpose = config, seed, purpose
        self._positions = half_slices(batch_size, rank, world_size)
        self._mine = torch.from_numpy(self._positions).to(device)
        usual = MAGNITUDE if config.augmentation == "strong" else 0
        self._magnitude = 0 if config.augmentation == "none" else rand_augment or usual
        self._mirrored_first: np.ndarray | None = None  # int64[N]: images that are mirrored in the even epochs
        if flips == "alternating":
            first = keyed_generator(seed, f"{purpose} mirrored first")
            self._mirrored_first = first.integers(0, 2, size=len(labelled))
        self._crops = _crops(labelled.images, len(self._positions), config, device)
        self._targets = torch.from_numpy(np.array(labelled.targets)).to(device)
        self._normalise = Normaliser(normalisation, device) if _are_pixels(labelled.images) else nn.Identity()

    @property
    def in_memory(self) -> bool:
        """Whether the images, or their embeddings, are held as tensors."""
        return not isinstance(self._crops, _StreamedCrops)

    @property
    def on_device(self) -> bool:
        """Whether `load` needs nothing but tensors on the device; RandAugment's draws lie on the host."""
        return self.in_memory and not self._magnitude

    def epoch(self, epoch: int) -> Iterator[BatchSlice]:
        """This rank's share of each global batch of an epoch."""
        draws = self.draws(epoch)
        for draw in zip(*draws, strict=True):
            yield self.load(BatchDraw(*draw))

    def draws(self, epoch: int) -> BatchDraw:
        """All batches of an epoch as indices, with a leading dimension [steps, ...], on the device."""
        order = self.order(epoch)
        draws = []
        for step in range(self.steps_per_epoch):
            rows = order[step * self.batch_size : (step + 1) * self.batch_size]
            draws.append(self._draw(rows, epoch, step))
        drawn = BatchDraw(*(torch.from_numpy(np.stack(values)) for values in zip(*draws, strict=True)))
        if isinstance(self._crops, _StreamedCrops):
            self._crops.begin(drawn.rows[:, self._positions].numpy())
        device = self._targets.device
        return BatchDraw(drawn.rows.to(device), drawn.starts.to(device), drawn.operations, drawn.boxes.to(device))

    def order(self, epoch: int) -> np.ndarray:
        """int64[N]: the rows of an epoch; those that fill no batch are the last."""
        generator = keyed_generator(self._seed, f"{self._purpose} order", epoch)
        if self._config.sampling == "balanced":
            return balanced_order(self._targets.numpy(force=True), generator)
        return generator.permutation(len(self._targets))

    def _draw(self, rows: np.ndarray, epoch: int, step: int) -> tuple[np.ndarray, ...]:
        draw = keyed_generator(self._seed, f"{self._purpose} augmentation", epoch, step)
        offsets = draw.integers(0, 2 * self._config.border + 1, size=(2, len(rows)))
        flips = draw.integers(0, 2, size=len(rows)) * int(self._config.flips)
        if self._mirrored_first is not None:
            flips = (self._mirrored_first[rows] + epoch) % 2 * int(self._config.flips)
        mine = self._positions
        starts = self._crops.starts(rows[mine], offsets[:, mine], flips[mine])
        operations, boxes = (draws(len(rows), epoch, step) for draws in (self._draw_operations, self._draw_boxes))
        return rows, starts, operations[:, mine], boxes[mine]

    def _draw_operations(self, count: int, epoch: int, step: int) -> np.ndarray:
        """int64[2, B]: RandAugment's operations and signs, by a key of their own; zeros without it."""
        if not self._magnitude:
            return np.zeros((2, count), np.int64)
        from proser_core.data.augmentation.rand_augment import draw_operations  # loads torchvision

        return draw_operations(keyed_generator(self._seed, f"{self._purpose} operations", epoch, step), count)

    def _draw_boxes(self, count: int, epoch: int, step: int) -> np.ndarray:
        """float32[B, 4]: boxes of resized crops, by a key of their own; [B, 0] without them."""
        if not self._config.resizes_crops:
            return np.zeros((count, 0), np.float32)
        return draw_boxes(keyed_generator(self._seed, f"{self._purpose} resized crops", epoch, step), count)

    def load(self, draw: BatchDraw) -> BatchSlice:
        """The images and targets of one drawn batch; all on the device, save for RandAugment's grouping."""
        pixels = self._crops.crop(draw.starts)
        if self._config.resizes_crops:
            pixels = resized_crops(pixels, draw.boxes)
        if self._magnitude:
            from proser_core.data.augmentation.rand_augment import rand_augment

            pixels = rand_augment(pixels, draw.operations.numpy(), self._magnitude)
        global_targets = self._targets[draw.rows]
        return BatchSlice(self._normalise(pixels), global_targets[self._mine], global_targets)


def half_slices(batch_size: int, rank: int, world_size: int) -> np.ndarray:
    """Positions int64[B / world_size] of a rank in a global batch: its part of each half.

    A batch whose halves cannot be shared evenly (pretraining needs no halves) is cut plainly.
    """
    if batch_size % (2 * world_size):
        return np.arange(rank * batch_size // world_size, (rank + 1) * batch_size // world_size)
    half = batch_size // 2
    part = np.arange(rank * half // world_size, (rank + 1) * half // world_size)
    return np.concatenate([part, half + part])


def rank_order(batch_size: int, world_size: int) -> Tensor:
    """int64[B]: positions of the global batch in the order in which all ranks hold them."""
    return torch.from_numpy(np.concatenate([half_slices(batch_size, rank, world_size) for rank in range(world_size)]))


class Normaliser:
    """uint8[B, H, W, 3] to float32[B, 3, H, W] in channels_last memory, zero mean and unit variance.

    Works on whole rows of pixels: three channels at a time are too few for a processor's vectors.
    """

    def __init__(self, normalisation: Normalisation, device: torch.device) -> None:
        mean, std = (torch.tensor(values, device=device) for values in normalisation)
        self._pixel = 1.0 / (255.0 * std), -mean / std
        self._row = self._pixel

    def __call__(self, pixels: Tensor) -> Tensor:
        width = pixels.shape[2]
        if len(self._row[0]) != 3 * width:
            self._row = self._pixel[0].repeat(width), self._pixel[1].repeat(width)
        scale, shift = self._row
        return torch.addcmul(shift, pixels.flatten(2).float(), scale).view(pixels.shape).permute(0, 3, 1, 2)


@dataclass(frozen=True)
class _Windows:
    """Where rows of crops begin in a flat array of `count` padded images, which their mirror images follow."""

    count: int
    height: int
    width: int
    padding: int

    def first(self, rows: np.ndarray, offsets: np.ndarray, flips: np.ndarray) -> np.ndarray:
        """int64[B]: the first row of a crop of image `rows[i]`, mirrored where `flips[i]`, from offset (y, x)."""
        line = (flips * self.count + rows) * (self.height + 2 * self.padding) + offsets[0]
        return line * (self.width + 2 * self.padding) + offsets[1]

    def lines(self) -> np.ndarray:
        """int64[H]: how far behind the first row of a crop each of its rows begins."""
        return np.arange(self.height) * (self.width + 2 * self.padding)


class _CropTable:
    """Padded images (and their mirror images) whose crops are windows into one flat array."""

    def __init__(self, images: np.ndarray, padding: int, flip: bool, device: torch.device) -> None:
        self._windows = _Windows(len(images), images.shape[1], images.shape[2], padding)
        versions = (
            torch.from_numpy(shared_table(images, padding, flip))
            if device.type == "cpu" and isinstance(images, np.memmap)
            else torch.from_numpy(padded_versions(images, padding, flip)).to(device)
        )
        row_length = 3 * self._windows.width
        self._pixels = versions.flatten().unfold(0, row_length, 3)  # a view: one row of a crop at each pixel

    def starts(self, rows: np.ndarray, offsets: np.ndarray, flips: np.ndarray) -> np.ndarray:
        """int64[B * H]: the rows of the crops that `_Windows.first` begins."""
        return (self._windows.first(rows, offsets, flips)[:, None] + self._windows.lines()).ravel()

    def crop(self, starts: Tensor) -> Tensor:
        """uint8[B, H, W, 3]: the crops whose rows these are."""
        return self._pixels.index_select(0, starts).view(-1, self._windows.height, self._windows.width, 3)


class _StreamedCrops:
    """A table of crops for each batch of an epoch, made as its images arrive."""

    def __init__(self, images: ImageSource, batch_size: int, padding: int, flip: bool, device: torch.device) -> None:
        self._windows = _Windows(batch_size, images.size, images.size, padding)
        self._images, self._flip, self._device = images, flip, device
        self._lines = torch.from_numpy(self._windows.lines()).to(device)
        self._arriving: Generator[np.ndarray, None, None] | None = None

    def starts(self, rows: np.ndarray, offsets: np.ndarray, flips: np.ndarray) -> np.ndarray:
        """int64[B]: `_Windows.first` in the table of this batch; all rows of an epoch would grow with the set."""
        return self._windows.first(np.arange(len(rows)), offsets, flips)

    def begin(self, rows: np.ndarray) -> None:
        """Request the images of an epoch's batches, `rows` int64[steps, b]; earlier requests are dropped."""
        if self._arriving is not None:
            self._arriving.close()
        self._arriving = self._images.batches(rows.ravel(), self._windows.count)

    def crop(self, starts: Tensor) -> Tensor:
        """uint8[b, H, W, 3]: the crops of the next batch."""
        assert self._arriving is not None, "draw an epoch before its batches are loaded"
        table = _CropTable(next(self._arriving), self._windows.padding, self._flip, self._device)
        return table.crop((starts[:, None] + self._lines).flatten())


class _Embeddings:
    """Embeddings float32[N, d] in the place of crops, as they are."""

    def __init__(self, embeddings: np.ndarray, device: torch.device) -> None:
        self._embeddings = torch.from_numpy(np.array(embeddings)).to(device)

    def starts(self, rows: np.ndarray, offsets: np.ndarray, flips: np.ndarray) -> np.ndarray:
        """int64[B]: the rows themselves."""
        return rows

    def crop(self, starts: Tensor) -> Tensor:
        """float32[B, d]: the embeddings of these rows."""
        return self._embeddings.index_select(0, starts)


def _are_pixels(images: np.ndarray | ImageSource) -> bool:
    """Whether they are images; embeddings [N, d] of frozen features take their place."""
    return not isinstance(images, np.ndarray) or images.ndim == 4


def _crops(
    images: np.ndarray | ImageSource, batch_size: int, config: DataConfig, device: torch.device
) -> _CropTable | _StreamedCrops | _Embeddings:
    if not isinstance(images, np.ndarray):
        return _StreamedCrops(images, batch_size, config.border, config.flips, device)
    if not _are_pixels(images):
        return _Embeddings(images, device)
    return _CropTable(images, config.border, config.flips, device)


def evaluation_batches(
    images: np.ndarray | ImageSource, normalisation: Normalisation, device: torch.device
) -> Iterator[Tensor]:
    """All images in order, unaugmented, float32[b, 3, H, W]. Where there are none, one black image, whose outputs tell
    the shape of none: many networks take no empty batch. Embeddings float32[N, d] in one batch, as they are."""
    if not _are_pixels(images):
        yield torch.from_numpy(np.array(images)).to(device)
        return
    normalise, size = Normaliser(normalisation, device), image_size(images)
    none = [np.zeros((1, size, size, 3), np.uint8)]
    # 32 images stay in a core's cache, 1.4x the rate of 256; on a GPU 1024, fewer where large
    at_once = 32 if device.type == "cpu" else max(32, min(1024, 1024 * 32**2 // size**2))
    for chunk in chunks(images, at_once) if len(images) else none:
        yield normalise(torch.from_numpy(np.array(chunk)).to(device))
