"""Our training step, taken again and again on one batch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.harness.settings import Settings
from benchmarks.variants.setups import NUM_KNOWN, arithmetic, placeholder_net
from proser_core.config import FinetuneConfig, NetworkConfig, OptimizerConfig
from proser_core.data.augmentation.batches import BatchDraw, BatchSlice, TrainingBatches
from proser_core.learning.averaging import WeightAverage
from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective
from proser_core.learning.optimizers import make_optimizer
from proser_core.learning.step import Arithmetic, GraphedStep, StepInputs, TrainingStep
from proser_core.networks.nets import make_closed_set_net

Wrap = Callable[[nn.Module], nn.Module]
PAPER = FinetuneConfig()
DRAWN_AT_ONCE = 64  # steps, about an epoch of CIFAR100's 15 classes


def unwrapped(module: nn.Module) -> nn.Module:
    """The forward pass of one process, eager."""
    return module


class _Given(TrainingBatches):
    """Gives a step the batch that lies ready."""

    batch: BatchSlice

    def __init__(self) -> None:
        pass

    def load(self, draw: BatchDraw) -> BatchSlice:
        """The batch, whatever is drawn."""
        return self.batch


class OurStep:
    """`TrainingStep` on a batch that is augmented already; every `DRAWN_AT_ONCE` steps it draws for as many."""

    def __init__(
        self,
        objective: CrossEntropyObjective | ProserObjective,
        arithmetic: Arithmetic,
        wrap: Wrap = unwrapped,
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


def our_step(settings: Settings, bf16: bool, wrap: Wrap = unwrapped, **net: Any) -> OurStep:
    """PROSER's step with the paper's settings on a fresh network; `wrap` goes around its forward pass."""
    config = FinetuneConfig(batch_size=settings.batch_size)
    objective = ProserObjective(placeholder_net(settings, **net), config, seed=0)
    return OurStep(objective, arithmetic(settings, bf16), wrap)


def closed_set_step(settings: Settings, bf16: bool, config: OptimizerConfig = PAPER) -> OurStep:
    """A cross-entropy step on a fresh classifier32, with the optimizer that the configuration names."""
    net = make_closed_set_net(NetworkConfig(), NUM_KNOWN, settings.image_size, seed=0)
    net = net.to(settings.torch_device).to(memory_format=torch.channels_last)
    return OurStep(CrossEntropyObjective(net), arithmetic(settings, bf16), config=config)
