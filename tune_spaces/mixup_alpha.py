"""Where and how strongly images are mixed: alpha in 0.4, 1, 1.5, 2, times manifold and vanilla, 8 points.

Source: supplement, tab. Ablation study over manifold mixup and vanilla mixup; beta 1 and gamma 0.1 as there.
"""

from typing import Any

from ray import tune

from tune_spaces import Claim, Published

ALPHAS = [0.4, 1.0, 1.5, 2.0]
SOURCE = "supplement, tab. Ablation study over manifold mixup and vanilla mixup (CIFAR100)"
MACRO_F1 = {"vanilla": [0.623, 0.644, 0.639, 0.641], "manifold": [0.630, 0.686, 0.700, 0.707]}
PUBLISHED = [
    Published({"alpha": alpha, "mixup": place}, "macro_f1", value, SOURCE)
    for place, values in MACRO_F1.items()
    for alpha, value in zip(ALPHAS, values, strict=True)
]
CLAIMS = [
    Claim(
        "manifold is above vanilla at every alpha",
        tuple(({"alpha": alpha, "mixup": "manifold"}, {"alpha": alpha, "mixup": "vanilla"}) for alpha in ALPHAS),
        SOURCE,
    ),
    Claim(
        "alpha 2 is best (manifold)",
        tuple(({"alpha": 2.0, "mixup": "manifold"}, {"alpha": a, "mixup": "manifold"}) for a in ALPHAS[:-1]),
        SOURCE,
    ),
]


def param_space() -> dict[str, Any]:
    """Every alpha at the hidden layer and on the images, with the paper's weights of the two losses."""
    return {
        "finetune": {
            "beta": 1.0,
            "gamma": 0.1,
            "alpha": tune.grid_search(ALPHAS),
            "mixup": tune.grid_search(["manifold", "vanilla"]),
        }
    }
