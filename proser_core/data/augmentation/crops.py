"""Random crops of mirrored and padded images: windows into one flat array, in memory or made as images arrive."""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from proser_core.config import DataConfig
from proser_core.data.augmentation.crop_tables import is_whole_file, padded_versions, shared_table
from proser_core.data.image_sets import ImageSource
from proser_core.data.normalisation import are_pixels


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


class CropTable:
    """Padded images (and their mirror images) whose crops are windows into one flat array."""

    def __init__(self, images: np.ndarray, padding: int, flip: bool, device: torch.device) -> None:
        self._windows = _Windows(len(images), images.shape[1], images.shape[2], padding)
        versions = (
            torch.from_numpy(shared_table(images, padding, flip))
            if device.type == "cpu" and is_whole_file(images)
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


class StreamedCrops:
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
        table = CropTable(next(self._arriving), self._windows.padding, self._flip, self._device)
        return table.crop((starts[:, None] + self._lines).flatten())


class Embeddings:
    """Embeddings float32[N, d] in the place of crops, as they are."""

    def __init__(self, embeddings: np.ndarray, device: torch.device) -> None:
        self._embeddings = torch.from_numpy(np.array(embeddings)).to(device)

    def starts(self, rows: np.ndarray, offsets: np.ndarray, flips: np.ndarray) -> np.ndarray:
        """int64[B]: the rows themselves."""
        return rows

    def crop(self, starts: Tensor) -> Tensor:
        """float32[B, d]: the embeddings of these rows."""
        return self._embeddings.index_select(0, starts)


def crops_of(
    images: np.ndarray | ImageSource, batch_size: int, config: DataConfig, device: torch.device
) -> CropTable | StreamedCrops | Embeddings:
    """What a rank's `batch_size` images of each batch are cut from: `starts` places drawn crops, `crop` cuts."""
    if not isinstance(images, np.ndarray):
        return StreamedCrops(images, batch_size, config.border, config.flips, device)
    if not are_pixels(images):
        return Embeddings(images, device)
    return CropTable(images, config.border, config.flips, device)
