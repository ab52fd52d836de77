"""The loop over epochs of every network of a method's own: keyed seeds, reports, resumption, a check of each epoch.

`fit` drives one objective by one optimizer; a GAN has several of both, so that its steps are its own here. `descend`
trains a network with one loss and one optimizer.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from proser_core.config import OptimizerConfig
from proser_core.data.augmentation.batches import BatchSlice, TrainingBatches
from proser_core.errors import TrainingError
from proser_core.generative.own_network import OwnTraining
from proser_core.learning.fit import Metrics, learning_rates
from proser_core.rng import keyed_seed

BETAS = (0.5, 0.999)
"""Adam's, of GANs and of the classifiers beside them."""
MOST_DRAWS = 20
"""Images drawn for each one that is wanted, at most."""
REMEDY = "give another --seed or, unless it was given, --own-networks full, which trains them longer"
"""What to do where networks are too poor for what is made of them."""
Steps = Callable[[int], Iterable[Mapping[str, Tensor]]]
"""Runs an epoch, and yields what each of its steps measured: scalars on the device, by name."""
LossOf = Callable[[BatchSlice, int, int], Mapping[str, Tensor]]
"""From a batch, its epoch and its step to scalars by name; "loss/total" is followed, and all of them are reported."""


def run_epochs(parts: Mapping[str, nn.Module | torch.optim.Optimizer], training: OwnTraining, steps: Steps) -> None:
    """Train for the epochs of the schedule, and report the means of what the steps measure after each.

    `parts` are all that changes in an epoch, by name: modules, in training mode when an epoch begins, and optimizers.
    A training that resumes equals one that never stopped. Raises TrainingError where a mean is not finite.
    """
    first = 0
    if training.resume is not None:
        for name, part in parts.items():
            part.load_state_dict(training.resume[name])
        first = training.resume["epoch"] + 1
    for epoch in range(first, training.schedule.epochs):
        for part in parts.values():
            if isinstance(part, nn.Module):
                part.train()  # a report, or a search, may have scored images
        torch.manual_seed(keyed_seed(training.seed, "dropout of own networks", epoch))
        metrics = _means(steps(epoch), epoch)
        training.report(epoch, metrics, {"epoch": epoch, **{name: part.state_dict() for name, part in parts.items()}})


def take_step(loss: Tensor, *optimizers: torch.optim.Optimizer) -> None:
    """One step of these optimizers alone; what others own gets no gradient."""
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward(inputs=[weight for each in optimizers for group in each.param_groups for weight in group["params"]])
    for optimizer in optimizers:
        optimizer.step()


def descend(
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_of: LossOf,
    batches: TrainingBatches,
    rates: OptimizerConfig,
    training: OwnTraining,
) -> None:
    """`run_epochs` of a network with one optimizer that follows one loss; of `rates` count the peak of the learning
    rate, its schedule and the epochs."""

    def steps(epoch: int) -> Iterator[Mapping[str, Tensor]]:
        now = learning_rates(rates, epoch, batches.steps_per_epoch).tolist()
        for step, batch in enumerate(batches.epoch(epoch)):
            with training.arithmetic.autocast():
                losses = loss_of(batch, epoch, step)
            for group in optimizer.param_groups:
                group["lr"] = now[step]
            take_step(losses["loss/total"], optimizer)
            yield losses

    run_epochs({"net": net, "optimizer": optimizer}, training, steps)


def accuracy(logits: Tensor, targets: Tensor) -> Tensor:
    """Share of the images whose largest logit, of float[B, K], is that of their class, int64[B]."""
    return (logits.argmax(dim=1) == targets).float().mean()


def _means(steps: Iterable[Mapping[str, Tensor]], epoch: int) -> Metrics:
    """Means over the steps of an epoch, which the host reads once."""
    sums: dict[str, Tensor] = {}
    count = 0
    for values in steps:
        count += 1
        for name, value in values.items():
            sums[name] = sums[name] + value.detach() if name in sums else value.detach()
    totals = torch.stack([each.float() for each in sums.values()]).tolist()
    means = {name: total / count for name, total in zip(sums, totals, strict=True)}
    for name, mean in means.items():
        if not math.isfinite(mean):
            raise TrainingError(
                f"{name} is {mean} in epoch {epoch}; the losses must stay finite. Train in fp32 "
                "(`--precision fp32`), or with another --seed"
            )
    return means
