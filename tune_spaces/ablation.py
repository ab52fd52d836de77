"""What each kind of placeholder gives: mixup only, dummies only, and both, with C = 1 and C = 5, 5 points.

Source: fig. Macro F1 against varying openness. Its plain CNN is the softmax probability of the pretrained net, which
every sweep evaluates as a control. gamma 10 without the placeholder term stands for the paper's gamma to infinity.
"""

from typing import Any

from ray import tune

from tune_spaces import Claim

POINTS: dict[str, dict[str, Any]] = {
    "Mixup": {"beta": 0.0, "gamma": 10.0, "num_dummies": 1},
    "Dummy, C = 1": {"beta": 1.0, "gamma": 0.0, "num_dummies": 1},
    "Dummy, C = 5": {"beta": 1.0, "gamma": 0.0, "num_dummies": 5},
    "PROSER, C = 1": {"beta": 1.0, "gamma": 0.1, "num_dummies": 1},
    "PROSER, C = 5": {"beta": 1.0, "gamma": 0.1, "num_dummies": 5},
}
PLAIN_CNN = "MSP"
SINGLE = ("Mixup", "Dummy, C = 1", "Dummy, C = 5")
COMBINED = ("PROSER, C = 1", "PROSER, C = 5")
SOURCE = "sec. Ablation study (CIFAR100)"
UNKNOWN = (15, 30, 45, 60, 85)
PAIRS = {
    "each kind of placeholder is above the plain CNN": [(name, PLAIN_CNN) for name in SINGLE],
    "both kinds together are above each by itself": [(both, one) for both in COMBINED for one in SINGLE],
    "C = 5 is above C = 1": [("Dummy, C = 5", "Dummy, C = 1"), ("PROSER, C = 5", "PROSER, C = 1")],
}
CLAIMS = [Claim(says, tuple(pairs), SOURCE, num_unknown=UNKNOWN) for says, pairs in PAIRS.items()]


def param_space() -> dict[str, Any]:
    """The points by the names of the figure."""
    return {"finetune": tune.grid_search(list(POINTS.values()))}
