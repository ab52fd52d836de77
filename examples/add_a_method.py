"""Add a score of your own, the margin of Scheffer et al. 2001, and a method that trains: PROSER with one dummy.

python examples/add_a_method.py
"""

import sys
from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.datasets import load_digits

from proser_core import (
    METHODS,
    SCORES,
    DataConfig,
    EpochProgress,
    FinetuneConfig,
    Method,
    PretrainConfig,
    Recipe,
    ScoreFunction,
    task_from_arrays,
    train,
)


@dataclass(frozen=True)
class Margin(ScoreFunction):
    """`l_2 - l_1`, float32[N], larger for unknown: the second largest logit less the largest."""

    name = "margin"
    source = "Scheffer et al. 2001"

    def in_torch(self, known: torch.Tensor, dummies: torch.Tensor) -> torch.Tensor:
        best = known.topk(2, 1).values
        return best[:, 1] - best[:, 0]


SCORES["margin"] = Margin  # a saved classifier names its score; this finds it again
METHODS["margin"] = Method("margin", Margin.source, Margin())
METHODS["one dummy"] = Method(
    "one dummy", "example", SCORES["gap"](), finetune=lambda recipe: replace(recipe.finetune, num_dummies=1)
)

digits = load_digits()
images = (digits.images * 255 / 16).astype(np.uint8)
is_test = np.arange(len(images)) % 3 == 0
is_training = ~is_test & (digits.target < 6)
task = task_from_arrays(
    images[is_training], digits.target[is_training], test_images=images[is_test], test_labels=digits.target[is_test]
)
recipe = Recipe(
    data=DataConfig(name="digits", image_size=8, num_known=6, flip=False, padding=1),
    pretrain=PretrainConfig(epochs=4, batch_size=32, lr=0.05),
    finetune=FinetuneConfig(epochs=2, batch_size=32),
)

print("method      AUROC  macro-F1, four unknown classes")
for name in ("MaxLogit", "margin", "one dummy"):
    results = train(task, recipe, name, progress=EpochProgress(sys.stderr)).results
    print(f"{name:10s}  {results['test/unknown_4/auroc']:.3f}  {results['test/unknown_4/macro_f1']:.3f}")
