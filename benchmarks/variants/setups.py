"""What several benchmarks put together: images, networks and the two forms of a step."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from benchmarks.harness.settings import Settings
from benchmarks.variants.released_form import ReleasedStep
from proser_core.config import DataConfig, FinetuneConfig, NetworkConfig, OptimizerConfig
from proser_core.data.augmentation.batches import BatchDraw, BatchSlice, TrainingBatches, half_slices
from proser_core.data.data_sets import open_data_set
from proser_core.data.tasks import Labelled
from proser_core.jobs.probe import NORMALISATION
from proser_core.learning.averaging import WeightAverage
from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective
from proser_core.learning.optimizers import make_optimizer
from proser_core.learning.step import Arithmetic, GraphedStep, StepInputs, TrainingStep
from proser_core.networks.nets import PlaceholderNet, add_placeholders, make_closed_set_net

NUM_KNOWN, NUM_DUMMIES = 15, 5
PAPER = FinetuneConfig()
DRAWN_AT_ONCE = 64  # steps, about an epoch of CIFAR100's 15 classes


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
    return add_placeholders(closed_set, num_dummies, seed=0).to(settings.torch_device, memory_format=layout)


def unwrapped(module: nn.Module) -> nn.Module:
    """The forward pass of one process, eager."""
    return module


class _Given:
    """In the place of `TrainingBatches`: hands a step the batch that lies ready."""

    def __init__(self) -> None:
        self.batch: BatchSlice | None = None

    def load(self, draw: BatchDraw) -> BatchSlice | None:
        """The batch, whatever is drawn."""
        return self.batch


class OurStep:
    """`TrainingStep` on batches that are augmented already, with the draws of an epoch now and then."""

    def __init__(
        self,
        objective: ProserObjective | CrossEntropyObjective,
        arithmetic: Arithmetic,
        wrap: Callable[[nn.Module], nn.Module] = unwrapped,
        config: OptimizerConfig = PAPER,
    ) -> None:
        self.objective, self._device = objective.train(), arithmetic.device
        self._lr = torch.tensor(config.lr, device=self._device)
        optimizer = make_optimizer(objective.parameters(), config, arithmetic)
        self._given, average = _Given(), WeightAverage(objective, config.averaging)
        self._step = TrainingStep(wrap(objective), self._given, optimizer, average, arithmetic)
        self.take: Callable[[StepInputs], None] = self._step
        self._steps = 0
        self._inputs: StepInputs

    def graphed(self) -> "OurStep":
        """The same step captured as a CUDA graph; its batch must then stay the same tensors."""
        self.take = GraphedStep(self._step)
        return self

    def __call__(self, batch: BatchSlice) -> None:
        self._given.batch = batch
        number = self._steps % DRAWN_AT_ONCE
        if number == 0:
            self._inputs = self._drawn(len(batch.global_targets))
        self.take(self._inputs.at(number))
        self._steps += 1

    def _drawn(self, batch_size: int) -> StepInputs:
        """Inputs of the next steps, which go to the device at once, as those of an epoch do."""
        mix = self.objective.draws(self._steps // DRAWN_AT_ONCE, DRAWN_AT_ONCE, batch_size, self._device)
        nothing = torch.zeros(DRAWN_AT_ONCE, 0, device=self._device)
        return StepInputs(BatchDraw(nothing, nothing, nothing, nothing), mix, self._lr.expand(DRAWN_AT_ONCE))


def our_step(settings: Settings, bf16: bool, wrap: Callable[[nn.Module], nn.Module] = unwrapped, **net: int) -> OurStep:
    """PROSER's step with the paper's settings on a fresh network; `wrap` goes around its forward pass."""
    config = FinetuneConfig(batch_size=settings.batch_size)
    objective = ProserObjective(placeholder_net(settings, **net), config, seed=0)
    return OurStep(objective, arithmetic(settings, bf16), wrap)


def closed_set_step(settings: Settings, bf16: bool, config: OptimizerConfig = PAPER) -> OurStep:
    """A cross-entropy step on a fresh classifier32, with the optimizer that the configuration names."""
    net = make_closed_set_net(NetworkConfig(), NUM_KNOWN, settings.image_size, seed=0)
    net = net.to(settings.torch_device, memory_format=torch.channels_last)
    return OurStep(CrossEntropyObjective(net), arithmetic(settings, bf16), config=config)


def released_step(settings: Settings, bf16: bool) -> ReleasedStep:
    """The released form on the same network, in the same memory layout."""
    return ReleasedStep(placeholder_net(settings), arithmetic(settings, bf16))
