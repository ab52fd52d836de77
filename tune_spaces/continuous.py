"""Draws over the fine-tune's own knobs, for a search with a budget: weights, dummies, alpha, learning rate.

The ranges hold the grids of the supplement, but not their zeros, which a logarithmic scale lacks. Points that fall
behind on the development metric are stopped early (successive halving, Jamieson and Talwalkar 2016).
"""

from typing import Any

from ray import tune


def param_space() -> dict[str, Any]:
    """Independent draws; weights and learning rate on a logarithmic scale."""
    return {
        "finetune": {
            "beta": tune.loguniform(0.01, 10.0),
            "gamma": tune.loguniform(0.001, 10.0),
            "num_dummies": tune.randint(1, 16),
            "alpha": tune.uniform(0.4, 2.0),
            "lr": tune.loguniform(3e-4, 3e-2),
        }
    }
