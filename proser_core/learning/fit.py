"""The training loop, for pretraining and fine-tuning, one process or many.

It knows neither Ray nor files: it is handed `report(epoch, metrics, state)`.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from proser_core.config import OptimizerConfig
from proser_core.data.augmentation.batches import TrainingBatches
from proser_core.errors import TrainingError
from proser_core.learning.averaging import WeightAverage
from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective
from proser_core.learning.optimizers import make_optimizer
from proser_core.learning.ranks import current_world
from proser_core.learning.step import Arithmetic, StepInputs, TrainingStep, best_step
from proser_core.processor import torch_restored
from proser_core.rng import keyed_seed

Metrics = dict[str, float]
State = dict[str, Any]
Report = Callable[[int, Metrics, State], None]
WARMUP_SHARE = {"one_cycle": 0.3, "cosine": 0.05, "cosine_restarts": 1 / 60}
"""Share of the steps; Vaze et al. 2022 warm up for 10 of 600 epochs."""
FLOOR = {"one_cycle": 0.0, "cosine": 0.0, "cosine_restarts": 1e-3}
"""Where a fall ends, as a share of the peak; eta_min of Vaze et al. 2022."""


def fit(
    objective: CrossEntropyObjective | ProserObjective,
    batches: TrainingBatches,
    config: OptimizerConfig,
    arithmetic: Arithmetic,
    *,
    seed: int,
    report: Report,
    resume: State | None = None,
) -> None:
    """Train `objective` in place for `config.epochs`, reporting after each.

    `seed` keys dropout, by epoch and rank; objective and batches have seeds of their own. The state that is reported is
    live: write or copy it before `report` returns. `resume` is one that was reported; the run then equals one that
    never stopped. Metrics are means over the images of all ranks. torch's global generators are left as they were.
    Raises TrainingError where the loss is not finite.
    """
    device = arithmetic.device
    module: nn.Module = objective.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    rank, world_size = current_world()
    # DDP would order its buckets anew after its first step, and three or more gradients would be added in another order
    # by a run that goes on; not where it looks for parameters that are not used. NCCL has its own orders.
    keeps_order = world_size > 2 and device.type == "cpu"
    wrapped = DistributedDataParallel(module, find_unused_parameters=keeps_order) if world_size > 1 else module
    optimizer = make_optimizer(module.parameters(), config, arithmetic)
    average = WeightAverage(module, config.averaging)
    first_epoch = 0
    if resume is not None:
        module.load_state_dict(resume["objective"])
        optimizer.load_state_dict(resume["optimizer"])
        average.load_state(resume["average"])
        first_epoch = resume["epoch"] + 1
    step = TrainingStep(wrapped, batches, optimizer, average, arithmetic)
    take = best_step(step, device, capturable=world_size == 1 and batches.on_device)

    with torch_restored(device):
        torch.backends.cudnn.deterministic = True  # others add gradients in any order
        for epoch in range(first_epoch, config.epochs):
            module.train()  # `report` may have scored the network
            torch.manual_seed(keyed_seed(seed, "dropout", epoch, rank))
            rates = learning_rates(config, epoch, batches.steps_per_epoch)
            draws = objective.draws(epoch, batches.steps_per_epoch, batches.batch_size, device)
            inputs = StepInputs(batches.draws(epoch), draws, rates.to(device))
            step.sums.zero_()
            for number in range(batches.steps_per_epoch):
                take(inputs.at(number))
            metrics = _means(step.names, step.sums, epoch)
            metrics["train/lr"] = float(rates[-1])
            state = {
                "epoch": epoch,
                "objective": module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "average": average.state(),
            }
            report(epoch, metrics, state)
    average.apply()


def learning_rates(config: OptimizerConfig, epoch: int, steps_per_epoch: int) -> Tensor:
    """float32[steps]: the learning rate of each step of an epoch."""
    total = config.epochs * steps_per_epoch
    first = epoch * steps_per_epoch
    return torch.tensor([config.lr * lr_factor(config, first + step, total) for step in range(steps_per_epoch)])


def lr_factor(config: OptimizerConfig, step: int, total_steps: int) -> float:
    """Share of the peak learning rate at a step: linear warm-up, then one or more cosines down to the floor."""
    if config.schedule == "constant":
        return 1.0
    warmup = max(1, round(WARMUP_SHARE[config.schedule] * total_steps))
    if step < warmup:
        return (step + 1) / warmup
    position, length = step - warmup, max(1, total_steps - warmup)
    if config.schedule == "cosine_restarts" and position < length:
        position = position * (config.restarts + 1) % length  # in whole numbers, so that no restart slips by a step
    progress = min(1.0, position / length)
    floor = FLOOR[config.schedule]
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))


def _means(names: list[str], sums: Tensor, epoch: int) -> Metrics:
    """One host read per epoch: all-reduced sums over all-reduced counts."""
    table = sums.clone()
    if current_world()[1] > 1:
        dist.all_reduce(table)
    totals, counts = table.T.tolist()
    means = {name: total / max(count, 1.0) for name, total, count in zip(names, totals, counts, strict=True)}
    for name, value in means.items():
        if not math.isfinite(value):
            weights = " or the weights beta and gamma" if "loss/placeholder" in names else ""
            raise TrainingError(
                f"{name} is {value} in epoch {epoch}; the loss must stay finite. Lower the learning rate{weights}"
            )
    return means
