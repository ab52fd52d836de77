"""Calibrate and evaluate logits of any network: no image and no training of this library is needed.

python examples/score_your_own_logits.py
"""

import numpy as np

from proser_core import SCORES, LogitTable, auroc, calibrate, open_set_macro_f1, score

NUM_KNOWN = 10
generator = np.random.default_rng(0)


def logits_of_your_network(targets: np.ndarray) -> np.ndarray:
    """Stands for your own: float32[N, K], with a peak at the target of a known image, and none for an unknown one."""
    logits = generator.normal(size=(len(targets), NUM_KNOWN)).astype(np.float32)
    known = np.flatnonzero(targets < NUM_KNOWN)
    logits[known, targets[known]] += 4
    return logits


def table(targets: np.ndarray) -> LogitTable:
    """Without dummy classifiers: these are float32[N, 0]."""
    return LogitTable(logits_of_your_network(targets), np.zeros((len(targets), 0), np.float32))


training_targets = generator.integers(NUM_KNOWN, size=2_000)
training = table(training_targets)
val = table(generator.integers(NUM_KNOWN, size=2_000))  # of known classes, which the network was not trained on
targets = generator.integers(NUM_KNOWN + 3, size=5_000).clip(max=NUM_KNOWN)  # NUM_KNOWN: unknown
test = table(targets)
is_known = targets < NUM_KNOWN

print("score      AUROC  macro-F1  known kept")
for name, kind in SCORES.items():
    if kind.needs_dummies:
        continue
    function = kind.fit(training, training_targets)  # of OpenMax; the others have nothing to fit
    calibration = calibrate(function(val), target_rate=0.95)
    found = score(test, function, calibration)
    print(
        f"{name:10s} {auroc(found.scores[is_known], found.scores[~is_known]):.3f}  "
        f"{open_set_macro_f1(found.predictions, targets, NUM_KNOWN):.3f}     {found.accepted[is_known].mean():.3f}"
    )
