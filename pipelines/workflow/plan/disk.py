"""What a plan needs of the disk that holds the storage."""

import shutil
from collections.abc import Sequence

from pipelines.workflow.plan.trainings import Costs, SplitPlan
from proser_core.errors import ConfigError
from proser_core.store.store import Store

CHECKPOINT = 3
"""Weights, momentum and perhaps an average, each as large as the weights."""


def disk_needed(plans: Sequence[SplitPlan], costs: Costs) -> int:
    """Bytes of the weights, logits, images and checkpoints that are missing; 0 where nothing is to be trained."""
    if not costs:
        return 0
    weights = (costs.get("finetune") or costs["pretrain"]).step.weight_bytes
    needed = 4 * weights * max(cost.at_once for cost in costs.values())
    for plan in plans:
        logits = 8 * plan.recipe.data.num_known
        needed += (weights + logits * plan.scored) * plan.missing
        needed += CHECKPOINT * weights * sum(map(len, plan.epochs[1:2]))  # of all that pause at the first rung
        needed += (weights + logits * plan.scored_pretrained) * (not plan.pretrained)
        pixels = 0 if plan.recipe.data.streaming else 3 * plan.recipe.data.image_size**2
        needed += pixels * sum(plan.images.values()) * (not plan.prepared)
    return needed


def check_disk(needed: int, store: Store) -> None:
    """Raises ConfigError where what a plan needs would not fit on the disk."""
    free = shutil.disk_usage(store.root).free
    if needed > free:
        raise ConfigError(
            f"the storage {store.root} has {_size(free)} free, and the plan needs about {_size(needed)}; free some, or "
            f"give another folder with {store.option}"
        )


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
