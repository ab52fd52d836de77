"""The training loop, for pretraining and fine-tuning, one process or many.

It knows neither Ray nor files: it is handed `report(epoch, metrics, state)`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from proser_core.config import OptimizerConfig
from proser_core.data.batches import TrainingBatches
from proser_core.errors import TrainingError
from proser_core.learning.mixup import current_world
from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective
from proser_core.rng import keyed_seed

Metrics = dict[str, float]
State = dict[str, Any]
Report = Callable[[int, Metrics, State], None]
WARMUP_SHARE = {"one_cycle": 0.3, "cosine": 0.05, "cosine_restarts": 1 / 60}
"""Share of the steps; Vaze et al. 2022 warm up for 10 of 600 epochs."""
FLOOR = {"one_cycle": 0.0, "cosine": 0.0, "cosine_restarts": 1e-3}
"""Where a fall ends, as a share of the peak; eta_min of Vaze et al. 2022."""


@dataclass(frozen=True)
class Arithmetic:
    """Where and in what precision a step runs."""

    device: torch.device
    bf16: bool

    def autocast(self) -> torch.autocast:
        """Context of the forward pass."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16)


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

    The state that is reported is live: write or copy it before `report` returns. `resume` is one
    that was reported; the run then equals one that never stopped. Metrics
    are means over the images of all ranks. Raises TrainingError where the loss is not finite.
    """
    module: nn.Module = objective.to(arithmetic.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    rank, world_size = current_world()
    wrapped = DistributedDataParallel(module) if world_size > 1 else module
    optimizer = torch.optim.SGD(
        module.parameters(),
        lr=config.lr,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        nesterov=config.nesterov,
        foreach=True,
    )
    average = WeightAverage(module, config.averaging)
    total_steps = config.epochs * batches.steps_per_epoch
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: lr_factor(config, step, total_steps))
    first_epoch = 0
    if resume is not None:
        module.load_state_dict(resume["objective"])
        optimizer.load_state_dict(resume["optimizer"])
        scheduler.load_state_dict(resume["scheduler"])
        average.load_state(resume["average"])
        first_epoch = resume["epoch"] + 1

    for epoch in range(first_epoch, config.epochs):
        module.train()  # `report` may have scored the network
        torch.manual_seed(keyed_seed(seed, "dropout", epoch, rank))
        sums: dict[str, Tensor] = {}
        for step, batch in enumerate(batches.epoch(epoch)):
            draw = objective.draw(epoch, step, batch)
            with arithmetic.autocast():
                terms = wrapped(batch.images, batch.targets, batch.global_targets, draw)
            optimizer.zero_grad(set_to_none=True)
            terms.total.backward()
            optimizer.step()
            average.update()
            rate = float(scheduler.get_last_lr()[0])
            scheduler.step()
            sums = {name: sums[name] + value if sums else value for name, value in terms.sums.items()}
        metrics = _means(sums, epoch)
        metrics["train/lr"] = rate
        state = {
            "epoch": epoch,
            "objective": module.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "average": average.state(),
        }
        report(epoch, metrics, state)
    average.apply()


class WeightAverage:
    """Exponential moving average of a module's weights and float buffers; a decay of 0 does nothing."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._decay = decay
        values = module.state_dict() if decay else {}
        self._live = {name: value for name, value in values.items() if value.is_floating_point()}
        self._averaged = {name: value.clone() for name, value in self._live.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the live weights by 1 - decay."""
        if self._live:
            torch._foreach_lerp_(list(self._averaged.values()), list(self._live.values()), 1.0 - self._decay)

    @torch.no_grad()
    def apply(self) -> None:
        """Put the averaged weights in the place of the live ones."""
        for name, value in self._averaged.items():
            self._live[name].copy_(value)

    def state(self) -> dict[str, Tensor]:
        """The averaged values by name."""
        return self._averaged

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Inverse of `state`."""
        for name, value in state.items():
            self._averaged[name].copy_(value)


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


def _means(sums: dict[str, Tensor], epoch: int) -> Metrics:
    """One host read an epoch: all-reduced sums over all-reduced counts."""
    table = torch.stack(list(sums.values()))
    if current_world()[1] > 1:
        dist.all_reduce(table)
    totals, counts = table.T.tolist()
    means = {name: total / max(count, 1.0) for name, total, count in zip(sums, totals, counts, strict=True)}
    for name, value in means.items():
        if not math.isfinite(value):
            raise TrainingError(
                f"{name} is {value} in epoch {epoch}; the loss must stay finite. "
                "Lower the learning rate or the weights beta and gamma"
            )
    return means
