"""Manifold and vanilla mixup at the recipe's own weights: 2 points, for the figure of generated novel embeddings.

Source: supplement, fig. Visualization of generated novel instances.
"""

from typing import Any

from ray import tune


def param_space() -> dict[str, Any]:
    """Mixtures at the hidden layer, and on the images."""
    return {"finetune": {"mixup": tune.grid_search(["manifold", "vanilla"])}}
