"""Images, batches and networks that several benchmarks share."""

import numpy as np
import torch

from benchmarks.harness.settings import Settings
from proser_core.config import DataConfig, NetworkConfig
from proser_core.data.augmentation.batches import BatchSlice, TrainingBatches, half_slices
from proser_core.data.data_sets import open_data_set
from proser_core.data.tasks import Labelled
from proser_core.jobs.probe import NORMALISATION
from proser_core.learning.step import Arithmetic
from proser_core.networks.nets import PlaceholderNet, add_placeholders, make_closed_set_net

NUM_KNOWN, NUM_DUMMIES = 15, 5
PRECISIONS = {"bf16": True, "fp32": False}
"""Whether each is bf16, in the order of the tables."""


def arithmetic(settings: Settings, bf16: bool) -> Arithmetic:
    """The settings' device in one of the two precisions."""
    return Arithmetic(settings.torch_device, bf16)


def images(settings: Settings, count: int) -> tuple[Labelled, str]:
    """`count` training images of 15 classes and what they are: CIFAR100's where a data directory is given."""
    size = settings.image_size
    if settings.data_dir is None:
        generator = np.random.default_rng(0)
        pixels = generator.integers(0, 256, (count, size, size, 3), dtype=np.uint8)
        return Labelled(pixels, generator.integers(0, NUM_KNOWN, count)), "random uint8 images"
    loaded = open_data_set("cifar100", settings.data_dir).load("train", size=size, classes=range(NUM_KNOWN))
    rows = np.random.default_rng(0).permutation(len(loaded.labels))[:count]
    return Labelled(loaded.images[rows], loaded.labels[rows]), "CIFAR100 training images of 15 classes"


def training_batches(settings: Settings, labelled: Labelled) -> TrainingBatches:
    """Ours: images in memory, augmented in batches."""
    return TrainingBatches(
        labelled,
        DataConfig(image_size=settings.image_size, padding=settings.image_size // 8),
        NORMALISATION,
        batch_size=settings.batch_size,
        seed=0,
        purpose="finetune",
        device=settings.torch_device,
    )


def one_batch(settings: Settings, num_known: int = NUM_KNOWN, batch_size: int = 0) -> BatchSlice:
    """A batch of noise in channels_last memory, as ours come."""
    count, size = batch_size or settings.batch_size, settings.image_size
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(count, 3, size, size, generator=generator).to(memory_format=torch.channels_last)
    targets = torch.randint(num_known, (count,), generator=generator).to(settings.torch_device)
    return BatchSlice(pixels.to(settings.torch_device), targets, targets)


def rank_part(batch: BatchSlice, rank: int, world_size: int) -> BatchSlice:
    """A rank's share of a global batch."""
    mine = torch.from_numpy(half_slices(len(batch.targets), rank, world_size)).to(batch.targets.device)
    pixels = batch.images[mine].contiguous(memory_format=torch.channels_last)
    return BatchSlice(pixels, batch.targets[mine], batch.global_targets)


def placeholder_net(
    settings: Settings, *, channels_last: bool = True, num_known: int = NUM_KNOWN, num_dummies: int = NUM_DUMMIES
) -> PlaceholderNet:
    """classifier32 with dummies, on the settings' device."""
    closed_set = make_closed_set_net(NetworkConfig(), num_known, settings.image_size, seed=0)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return add_placeholders(closed_set, num_dummies, seed=0).to(settings.torch_device).to(memory_format=layout)
