"""What each process of the distributed tests runs; importable, so that a spawned process finds it."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import small_tasks
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from waiting import PATIENCE_S

from proser_core.config import DataConfig, FinetuneConfig, NetworkConfig, Recipe
from proser_core.data.augmentation.batches import BatchSlice, TrainingBatches
from proser_core.data.preparation import make_task
from proser_core.data.tasks import OpenSetTask
from proser_core.learning.fit import fit
from proser_core.learning.mixup import MixDraw
from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective
from proser_core.learning.step import Arithmetic
from proser_core.learning.training import train_network
from proser_core.networks.nets import ClosedSetNet, add_placeholders, make_closed_set_net

SEED = 8
CPU = torch.device("cpu")
DATA = DataConfig(
    name="digits",
    image_size=8,
    num_known=3,
    unknown_settings=(2,),
    development="held-out-1",
    val_fraction=0.8,
    flip=False,
    padding=1,
)
CHOICES: dict[str, dict[str, Any]] = {
    "manifold mixup": {"mixup": "manifold"},
    "vanilla mixup": {"mixup": "vanilla"},
    "mixtures normalised apart": {"mixture_batch_norm": "separate"},
    "whole batches": {"batch_use": "all"},
    "whole batches, vanilla mixup": {"batch_use": "all", "mixup": "vanilla"},
    "released form": {"loss_form": "released"},
    "muon": {"optimizer": "muon", "start": "scratch"},
    "cross-entropy": {"objective": "cross_entropy"},
}
OBJECTIVES = {
    name: FinetuneConfig(epochs=2, batch_size=24, lr=0.01, gamma=0.7, num_dummies=4, **choices)
    for name, choices in CHOICES.items()
}


def digits_task() -> OpenSetTask:
    """Three known classes of scikit-learn's digits: in a batch many pairs have one class."""
    return make_task(DATA, None, SEED)


def batches_of(task: OpenSetTask, rank: int, world_size: int) -> TrainingBatches:
    """This rank's batches of 24 images."""
    options = {"padding": 1, "flip": False, "normalisation": (task.mean, task.std), "seed": SEED}
    return small_tasks.batches_of(task.train, 24, **options, rank=rank, world_size=world_size)


def objective_of(name: str, *, frozen_norms: bool) -> CrossEntropyObjective | ProserObjective:
    """The objective on the weights of `closed_set_net`."""
    config, closed_set = OBJECTIVES[name], closed_set_net(frozen_norms=frozen_norms)
    if config.objective == "cross_entropy":
        return CrossEntropyObjective(closed_set)
    return ProserObjective(add_placeholders(closed_set, config.num_dummies, SEED), config, SEED)


def closed_set_net(*, frozen_norms: bool) -> ClosedSetNet:
    """Fresh weights; frozen norms stay in evaluation mode whatever `train()` says."""
    net = make_closed_set_net(NetworkConfig(), 3, 8, SEED)
    if frozen_norms:
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
                module.train = lambda mode=True, norm=module: norm  # type: ignore[method-assign]
    return net


def step_gradients(name: str, batch: BatchSlice, *, distributed: bool) -> dict[str, Tensor]:
    """Gradients of one step, by parameter; in float64, where no rounding error moves a ReLU to its other side."""
    objective = objective_of(name, frozen_norms=True).double()
    module = DistributedDataParallel(objective) if distributed else objective
    terms = module(batch.images.double(), batch.targets, batch.global_targets, first_draw(objective, batch))
    terms.total.backward()
    return {key: value.grad.clone() for key, value in objective.named_parameters() if value.grad is not None}


def first_draw(objective: CrossEntropyObjective | ProserObjective, batch: BatchSlice) -> MixDraw | None:
    """What is mixed in the first step."""
    draws = objective.draws(0, 1, len(batch.global_targets), CPU)
    return None if draws is None else MixDraw(draws.partners[0], draws.mix_lambda[0])


def fitted(name: str, task: OpenSetTask, *, frozen_norms: bool) -> dict[str, object]:
    """Parameters, and metrics of each epoch, of `train_network`."""
    net = closed_set_net(frozen_norms=frozen_norms)
    recipe = Recipe(seed=SEED, data=DATA, finetune=OBJECTIVES[name])
    epochs: list[dict[str, float]] = []

    def keep(epoch: int, metrics: dict[str, float], state: Any) -> None:
        epochs.append(metrics)

    trained = train_network("finetune", net, task.train, (task.mean, task.std), recipe, bf16=False, report=keep)
    return {"parameters": {key: value.detach() for key, value in trained.named_parameters()}, "epochs": epochs}


def outcomes(rank: int, world_size: int) -> dict[str, object]:
    """What the tests compare, as one rank sees it; of more ranks also what they must have in common."""
    task, distributed = digits_task(), world_size > 1
    first = next(batches_of(task, rank, world_size).epoch(0))
    found: dict[str, object] = {
        "gradients": {name: step_gradients(name, first, distributed=distributed) for name in OBJECTIVES},
        "fit with frozen norms": {name: fitted(name, task, frozen_norms=True) for name in OBJECTIVES},
    }
    if distributed:
        found["fit"] = {name: fitted(name, task, frozen_norms=False) for name in OBJECTIVES}
    return found


def run_rank(rank: int, world_size: int, folder: Path) -> None:
    """One spawned process: join the group, compute, and leave the outcome in a file."""
    with joined(rank, world_size, folder):
        torch.save(outcomes(rank, world_size), folder / f"rank{rank}.pt")


@contextmanager
def joined(rank: int, world_size: int, folder: Path) -> Iterator[None]:
    """In a group of processes that share a folder."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=(folder / "store").as_uri(),
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=PATIENCE_S),
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def run_resumed(rank: int, world_size: int, folder: Path) -> None:
    """Train three epochs, and once more the last two of them, from the state after the first; save both weights."""
    task, config = digits_task(), replace(OBJECTIVES["cross-entropy"], epochs=3, lr=0.1)
    states: dict[int, Any] = {}

    def trained(resume: Any = None) -> Any:
        def keep(epoch: int, metrics: Any, state: Any) -> None:
            states.setdefault(epoch, copy.deepcopy(state))

        objective = objective_of("cross-entropy", frozen_norms=False)
        batches = batches_of(task, rank, world_size)
        fit(objective, batches, config, Arithmetic(CPU, bf16=False), seed=SEED, report=keep, resume=resume)
        return objective.state_dict()

    with joined(rank, world_size, folder):
        weights = trained(), trained(resume=states[0])
    torch.save(weights, folder / f"rank{rank}.pt")
