"""The number of dummy classifiers of the supplement: C in 1, 3, ..., 15, 8 points.

Source: supplement, fig. Number of dummy classifiers. The paper finds macro-F1 to fall for C > 11.
"""

from typing import Any

from ray import tune

from tune_spaces import Claim

CLAIMS = [
    Claim(
        "macro-F1 declines when C > 11",
        tuple(({"num_dummies": 11}, {"num_dummies": count}) for count in (13, 15)),
        "supplement, sec. Sensitivity about Hyper-Parameters (CIFAR100)",
    )
]


def param_space() -> dict[str, Any]:
    """Odd numbers of dummies; everything else is as in the recipe."""
    return {"finetune": {"num_dummies": tune.grid_search(list(range(1, 16, 2)))}}
