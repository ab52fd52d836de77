"""Augmented training batches from images that stay in memory as uint8, or that are streamed.

The images are padded and mirrored once; a random crop is then one `index_select` over rows of pixels, without a Python
loop over images. Of streamed images this is done batch by batch, with the same draws: the batches are equal.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from proser_core.config import DataConfig, Flips
from proser_core.data.augmentation.crops import StreamedCrops, crops_of
from proser_core.data.augmentation.resized_crops import draw_boxes, resized_crops
from proser_core.data.normalisation import Normalisation, Normaliser, are_pixels
from proser_core.data.tasks import Labelled
from proser_core.errors import ConfigError
from proser_core.rng import keyed_generator

MAGNITUDE = 9
"""Magnitude of the RandAugment of strong augmentation, on its scale of 31 steps. Source: torchvision's default."""


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


def check_batch(purpose: str, batch_size: int, images: int) -> None:
    """Raises ConfigError where the training images do not fill one batch."""
    if images < batch_size:
        raise ConfigError(
            f"{purpose}.batch_size {batch_size} is more than the {images} training images; use at most "
            f"{images // 2 * 2}"
        )


class TrainingBatches:
    """Batches of one epoch after another; each epoch a permutation keyed by (seed, purpose, epoch), or a balanced draw.

    Images that do not fill the last batch wait for another epoch, so that shapes are static. Streamed
    batches are loaded in the order in which they were drawn, each once. `purpose` (pretrain or finetune) keys the draws
    and names the field in errors. A rank holds its slices of each global batch of `batch_size` images. `flips`: each
    image mirrored at random, or in every other epoch. `rand_augment` is a magnitude in 0..30; 0 is the usual one of the
    augmentation. On the CPU, padded images of a whole .npy file that is mapped into memory are kept in a hidden file
    next to it, for all processes. Raises ConfigError where the training images do not fill one batch, DataError for an
    array that is neither images uint8[N, H, W, 3] nor embeddings float32[N, d].
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
        check_batch(purpose, batch_size, len(labelled))
        if not are_pixels(labelled.images):  # embeddings are not augmented
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
        self._crops = crops_of(labelled.images, len(self._positions), config, device)
        self._targets = torch.from_numpy(np.array(labelled.targets)).to(device)
        self._normalise = Normaliser(normalisation, device) if are_pixels(labelled.images) else nn.Identity()

    @property
    def in_memory(self) -> bool:
        """Whether the images, or their embeddings, are held as tensors."""
        return not isinstance(self._crops, StreamedCrops)

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
        if isinstance(self._crops, StreamedCrops):
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


def balanced_order(targets: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """int64[N]: rows of N = len(targets) images, in random order: equally many of each class, however many there are.

    Counts of classes differ by at most one, and so do those of the images of one class.
    """
    classes = generator.permutation(np.unique(targets))
    shares = np.full(len(classes), len(targets) // len(classes))
    shares[: len(targets) % len(classes)] += 1
    drawn = []
    for target, share in zip(classes, shares, strict=True):
        rows = np.flatnonzero(targets == target)
        drawn += [generator.permutation(rows) for _ in range(share // len(rows))]
        drawn.append(generator.permutation(rows)[: share % len(rows)])
    return generator.permutation(np.concatenate(drawn))


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
