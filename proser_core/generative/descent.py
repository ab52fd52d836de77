"""Epochs in which one optimizer follows one loss."""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from proser_core.config import OptimizerConfig
from proser_core.data.augmentation.batches import BatchSlice, TrainingBatches
from proser_core.generative.loop import Steps
from proser_core.learning.fit import learning_rates
from proser_core.learning.step import Arithmetic

LossOf = Callable[[BatchSlice, int, int], Mapping[str, Tensor]]
"""From a batch, its epoch and its step to scalars by name; "loss/total" is followed, and all of them are reported."""


def descent(
    loss_of: LossOf,
    batches: TrainingBatches,
    optimizer: torch.optim.Optimizer,
    rates: OptimizerConfig,
    arithmetic: Arithmetic,
) -> Steps:
    """Steps for `run_epochs`; of `rates` count the peak of the learning rate, its schedule and the epochs."""

    def steps(epoch: int) -> Iterator[Mapping[str, Tensor]]:
        now = learning_rates(rates, epoch, batches.steps_per_epoch).tolist()
        for step, batch in enumerate(batches.epoch(epoch)):
            with arithmetic.autocast():
                losses = loss_of(batch, epoch, step)
            optimizer.zero_grad(set_to_none=True)
            losses["loss/total"].backward()
            for group in optimizer.param_groups:
                group["lr"] = now[step]
            optimizer.step()
            yield losses

    return steps
