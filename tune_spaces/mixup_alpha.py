"""Where and how strongly images are mixed: alpha in 0.4, 1, 1.5, 2, times manifold and vanilla, 8 points.

Source: supplement, tab. Ablation study over manifold mixup and vanilla mixup; beta 1 and gamma 0.1 as there.
"""

from typing import Any

from ray import tune


def param_space() -> dict[str, Any]:
    """Every alpha at the hidden layer and on the images, with the paper's weights of the two losses."""
    return {
        "finetune": {
            "beta": 1.0,
            "gamma": 0.1,
            "alpha": tune.grid_search([0.4, 1.0, 1.5, 2.0]),
            "mixup": tune.grid_search(["manifold", "vanilla"]),
        }
    }
