"""One factor at a time around the recipe's own point: what decides a fine-tune, 14 points.

Made for the fine-tune of `cifar100-cpu-finetune`; a change that a recipe has already is its own point,
trained once. docs/results/search.md has what was found.
"""

from typing import Any

from ray import tune

CHANGES: list[dict[str, Any]] = [
    {"batch_use": "half"},
    {"gamma": 0.1},
    {"gamma": 1.0},
    {"gamma": 0.1, "mixture_batch_norm": "separate"},
    {"gamma": 0.1, "mixup": "vanilla"},
    {"beta": 0.1},
    {"beta": 3.0},
    {"num_dummies": 1},
    {"num_dummies": 15},
    {"lr": 0.005},
    {"lr": 0.05},
    {"epochs": 20},
    {"weight_decay": 1e-4},
    {"averaging": 0.99},
]


def param_space() -> dict[str, Any]:
    """Each change by itself; everything else is as in the recipe."""
    return {"finetune": tune.grid_search(CHANGES)}
