"""The data path of most training code: a DataLoader over images, transformed one by one."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from proser_core.data.tasks import Labelled
from proser_core.jobs.probe import NORMALISATION

WORKER_COUNTS = (0, 1, 2)


def transforms(size: int) -> v2.Compose:
    """Random crop with padding and random flip on uint8, then float and normalised."""
    return v2.Compose(
        [
            v2.RandomCrop(size, padding=size // 8),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(*NORMALISATION),
        ]
    )


class TransformedImages(Dataset):
    """One image and its target at a time."""

    def __init__(self, labelled: Labelled) -> None:
        self._images = torch.from_numpy(np.array(labelled.images)).permute(0, 3, 1, 2).contiguous()
        self._targets = torch.from_numpy(np.array(labelled.targets))
        self._transform: Callable[[Tensor], Tensor] = transforms(self._images.shape[2])

    def __len__(self) -> int:
        return len(self._targets)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return self._transform(self._images[row]), self._targets[row]

    def whole_batch(self, rows: Tensor) -> Tensor:
        """A batch through the same transforms at once: one crop and one flip for all of its images."""
        return self._transform(self._images[rows])


def loader(labelled: Labelled, batch_size: int, workers: int) -> DataLoader:
    """Shuffled batches; the workers stay alive from epoch to epoch."""
    return DataLoader(
        TransformedImages(labelled),
        batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,
    )
