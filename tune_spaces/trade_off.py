"""The trade-off grid of the supplement: beta and gamma in {0, 0.01, 0.1, 1, 10}, 25 points.

Source: supplement, fig. Trade-off parameter. The paper finds beta = 1, gamma = 0.1 best.
"""

from typing import Any

from ray import tune

from tune_spaces import Claim

WEIGHTS = [0.0, 0.01, 0.1, 1.0, 10.0]
BEST = {"beta": 1.0, "gamma": 0.1}
ALL = [{"beta": beta, "gamma": gamma} for beta in WEIGHTS for gamma in WEIGHTS]
CLAIMS = [
    Claim(
        "beta 1, gamma 0.1 is best of the 25",
        tuple((BEST, other) for other in ALL if other != BEST),
        "supplement, sec. Sensitivity about Hyper-Parameters (CIFAR100)",
    )
]


def param_space() -> dict[str, Any]:
    """Every pair of the two loss weights."""
    return {"finetune": {"beta": tune.grid_search(WEIGHTS), "gamma": tune.grid_search(WEIGHTS)}}
