"""One training step on tensors that are on the device already: no host read, and no draw.

The same step runs eagerly or, on a GPU, captured once as a CUDA graph and replayed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from proser_core.data.augmentation.batches import BatchDraw, TrainingBatches
from proser_core.learning.averaging import WeightAverage
from proser_core.learning.mixup import MixDraw

WARM_UP_STEPS = 3  # eager steps before the capture: they make SGD's momentum buffers and choose algorithms


@dataclass(frozen=True)
class Arithmetic:
    """Where and in what precision a step runs."""

    device: torch.device
    bf16: bool

    def autocast(self) -> torch.autocast:
        """Context of the forward pass."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16)


class StepInputs(NamedTuple):
    """What differs from step to step; with a leading dimension [steps, ...], all steps of an epoch."""

    batch: BatchDraw
    mix: MixDraw | None
    lr: Tensor

    def at(self, step: int) -> "StepInputs":
        """One step of an epoch's inputs, as views."""
        return self.each(lambda values: values[step])

    def each(self, change: Callable[[Tensor], Tensor]) -> "StepInputs":
        """The same with every tensor changed."""
        mix = None if self.mix is None else MixDraw(*map(change, self.mix))
        return StepInputs(BatchDraw(*map(change, self.batch)), mix, change(self.lr))

    def tensors(self) -> list[Tensor]:
        """All tensors, in a fixed order."""
        return [*self.batch, *(self.mix or ()), self.lr]


class TrainingStep:
    """Augment, forward, backward, update: `step(inputs)` changes the network in place.

    `sums` collects float32[metrics, 2] over the steps of an epoch, (sum over images, images) for each of `names`.
    """

    def __init__(
        self,
        wrapped: nn.Module,
        batches: TrainingBatches,
        optimizer: torch.optim.Optimizer,
        average: WeightAverage,
        arithmetic: Arithmetic,
    ) -> None:
        self._wrapped, self._batches, self._optimizer = wrapped, batches, optimizer
        self._average, self._arithmetic = average, arithmetic
        self.names: list[str] = []
        self.sums = torch.zeros(0)

    def __call__(self, inputs: StepInputs) -> None:
        batch = self._batches.load(inputs.batch)
        with self._arithmetic.autocast():
            terms = self._wrapped(batch.images, batch.targets, batch.global_targets, inputs.mix)
        self._optimizer.zero_grad(set_to_none=True)
        terms.total.backward()
        for group in self._optimizer.param_groups:
            group["lr"].copy_(inputs.lr)
        self._optimizer.step()
        self._average.update()
        table = torch.stack(list(terms.sums.values()))
        if not self.names:
            self.names, self.sums = list(terms.sums), torch.zeros_like(table)
        self.sums += table


class GraphedStep:
    """A `TrainingStep` captured as a CUDA graph: one launch per step instead of hundreds.

    The first steps run eagerly on a side stream, as capturing asks for; they are steps of the training like all others.
    """

    def __init__(self, step: TrainingStep) -> None:
        self._step, self._taken = step, 0
        self._stream = torch.cuda.Stream()
        self._graph = torch.cuda.CUDAGraph()
        self._static: StepInputs | None = None

    def __call__(self, inputs: StepInputs) -> None:
        if self._taken < WARM_UP_STEPS:
            self._warm_up(inputs)
        else:
            if self._static is None:
                self._capture(inputs)
            assert self._static is not None
            for static, value in zip(self._static.tensors(), inputs.tensors(), strict=True):
                static.copy_(value)
            self._graph.replay()
        self._taken += 1

    def _warm_up(self, inputs: StepInputs) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._step(inputs)
        torch.cuda.current_stream().wait_stream(self._stream)

    def _capture(self, inputs: StepInputs) -> None:
        """Record the step; capturing runs nothing."""
        self._static = inputs.each(torch.clone)
        with torch.cuda.graph(self._graph, stream=self._stream):  # whose workspaces go with the graph
            self._step(self._static)


def best_step(step: TrainingStep, device: torch.device, *, capturable: bool) -> Callable[[StepInputs], None]:
    """The step as it runs fastest: captured on a GPU where nothing in it needs the host."""
    return GraphedStep(step) if device.type == "cuda" and capturable else step
